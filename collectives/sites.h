// SPDX-License-Identifier: Apache-2.0
// Sets of ranks that are close to each other (sites), for hierarchies of two levels: compressed ones, and the all-to-all; the others go by
// the tree of all levels (tree.h). Sites may have any sizes and lie among the ranks in any way. What crosses sites is at level 1. Cannot
// fail.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/phases.h"

namespace isthmus::collectives {

/// The widest division of Shape::sites, and this rank's place in them.
struct Sites {
  using Charges = std::vector<std::vector<int32_t>>;

  std::vector<std::vector<int32_t>> members;  ///< positions by site; sites in the order of their first positions
  std::vector<size_t> site_of;                ///< by position
  std::vector<int32_t> place_of;              ///< by position: its index among its site's members
  int32_t leaders = 0;                        ///< members of the smallest site: so many of each site speak for it, each for its share
  size_t own = 0;                             ///< this rank's site
  int32_t place = 0;                          ///< and its place in it

  [[nodiscard]] bool several() const { return members.size() > 1; }
  [[nodiscard]] bool leads() const { return place < leaders; }
  [[nodiscard]] int32_t size_of(size_t site) const { return static_cast<int32_t>(members[site].size()); }
  /// This rank's site.
  [[nodiscard]] Group inside() const;
  /// The members of all sites that have this rank's place, which is a leader's.
  [[nodiscard]] std::vector<int32_t> counterparts() const;
  /// Those as a group, which refers to them.
  [[nodiscard]] Group across(const std::vector<int32_t>& counterparts) const;
  /// For each member of the own site the positions, of all sites, whose blocks it handles there: those that have its place, counted
  /// around.
  [[nodiscard]] Charges charges() const;
  /// The other sites, starting from the one before this rank's: the order in which their messages are expected.
  [[nodiscard]] std::vector<size_t> others() const;
};
Sites sites_of(const Shape& shape);

}  // namespace isthmus::collectives
