// SPDX-License-Identifier: Apache-2.0
// A job and what is known of its links, as the planner needs them: a cost model for walks, and numbers for closed forms. Made once per
// planning. Pure; making one fails if the profile has no facts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "codec/named.h"
#include "plan/cost.h"
#include "topology/planner/layout.h"
#include "topology/planner/profile.h"

namespace isthmus::topology {

class Scene {
 public:
  static Result<Scene> make(Layout layout, Profile profile);

  [[nodiscard]] const Layout& layout() const { return *layout_; }
  [[nodiscard]] const Profile& profile() const { return *profile_; }
  [[nodiscard]] int32_t ranks() const { return layout_->ranks(); }

  /// The facts about messages from rank to rank, and what they cost but for what is shared.
  [[nodiscard]] const LinkFacts& facts(int32_t from, int32_t to) const;
  [[nodiscard]] plan::LinkCost link(int32_t from, int32_t to) const;
  /// What else they go through; valid until the next call.
  [[nodiscard]] std::span<const plan::SharedLink> shared(int32_t from, int32_t to) const;
  /// For walks over plans of all ranks, of calls that travel as `codec` if one is given. Refers to the scene.
  [[nodiscard]] plan::CostModel model(const codec::Named* codec = nullptr) const;

 private:
  Scene() = default;
  /// Kind of link, and the two members that it joins; -1 where no facts tell members apart.
  using Pair = std::tuple<size_t, int32_t, int32_t>;
  struct Way {
    const LinkFacts* facts = nullptr;
    std::vector<plan::SharedLink> cuts;
  };
  [[nodiscard]] Pair pair_of(int32_t from, int32_t to) const;
  [[nodiscard]] Way make_way(int32_t from, int32_t to) const;
  [[nodiscard]] const Way& way(int32_t from, int32_t to) const;
  [[nodiscard]] plan::SharedLink port(int32_t rank, bool leaving, uint64_t rate_bytes_per_s) const;

  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const Profile> profile_;
  std::vector<int32_t> cpus_;         ///< by host
  std::vector<bool> told_apart_;      ///< by kind of link: some facts are about two members
  mutable std::map<Pair, Way> ways_;  ///< filled as asked for
  mutable std::vector<plan::SharedLink> answer_;
};

}  // namespace isthmus::topology
