// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job are, as numbers: what planning goes by. Made from the places of a communicator's ranks, from what
// `isthmus topo --json` wrote, or from a few numbers on a command line. Pure; reading fails on malformed text and says where.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/model.h"

namespace isthmus::topology {

inline constexpr size_t kLevels = 4;

/// Members of each level are numbered in the order of their first ranks. A level that nobody names divides as the next one below it does.
struct Layout {
  std::array<std::vector<int32_t>, kLevels> member_of;  ///< by level, by rank
  std::array<std::vector<std::string>, kLevels> names;  ///< by level, by member
  std::vector<int32_t> cpus_of_hosts;                   ///< by host; 0: not known

  [[nodiscard]] int32_t ranks() const { return static_cast<int32_t>(member_of[0].size()); }
  [[nodiscard]] const std::vector<int32_t>& hosts() const { return member_of[static_cast<size_t>(Level::host)]; }
  [[nodiscard]] const std::vector<int32_t>& sites() const { return member_of[static_cast<size_t>(Level::building)]; }
  /// Who is close to whom, as plan::Shape::sites wants it: the levels of the layout from the widest on, without those that divide nothing
  /// or no more than the one before; empty: all ranks are on one host.
  [[nodiscard]] std::vector<int32_t> divisions() const;
  [[nodiscard]] int32_t count(Level level) const { return static_cast<int32_t>(names[static_cast<size_t>(level)].size()); }
  [[nodiscard]] int32_t member(Level level, int32_t rank) const { return member_of[static_cast<size_t>(level)][static_cast<size_t>(rank)]; }
  /// The lowest level of which both ranks are in the same member; nothing: they are in different regions.
  [[nodiscard]] std::optional<Level> common(int32_t a, int32_t b) const;
  /// The highest level that has several members: what lies between them is the slowest. Nothing: all ranks are on one host.
  [[nodiscard]] std::optional<Level> widest() const;
  /// For people: "8 ranks, 4 hosts, 2 buildings".
  [[nodiscard]] std::string text() const;
  /// Equal for jobs whose ranks are divided alike into hosts and buildings, whatever the names.
  [[nodiscard]] uint64_t hash() const;
};

Layout layout_of(std::span<const Place> places);

/// The same job where somebody has found out its buildings, of which nobody names one: by rank a number for each, in the order of first
/// appearance. They are called "m0", "m1", ...
Layout with_buildings(Layout layout, std::span<const int32_t> building_by_rank);
std::string measured_name(int32_t building);

/// Sets how many CPUs each rank may run on; of a host's ranks the largest counts.
void set_cpus(Layout& layout, std::span<const int32_t> cpus_by_rank);

/// "2x4": buildings x hosts, "2x4x8": buildings x hosts x ranks of each; "3+5": buildings of so many hosts, "3+5x2" with two ranks each.
/// With "/cyclic" at the end neighbouring ranks are in different buildings. Or the JSON of `isthmus topo --json` for a job. At most 4096
/// ranks.
Result<Layout> parse_layout(std::string_view text);

}  // namespace isthmus::topology
