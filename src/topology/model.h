// SPDX-License-Identifier: Apache-2.0
// Who is where: the place of each rank as a path of named levels, and the tree that a job's places make. Made by discover/ladder.h,
// used by the library (a communicator's sites) and by `isthmus topo`. Pure; nothing here fails: what is not known stays unnamed, and what
// does not fit together becomes a warning.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::topology {

/// From the nearest to the farthest: hosts that share a switch or a rack are in a zone, zones in a building, buildings in a region.
enum class Level : uint8_t { host, zone, building, region };
inline constexpr std::array kNamedLevels = {Level::region, Level::building,
                                            Level::zone};  ///< those that somebody must name, outermost first
std::string_view name_of(Level level);
/// The level of that name, in any case.
std::optional<Level> level_named(std::string_view name);

/// Who says so, the most trusted first.
enum class Rung : uint8_t { setting, file, slurm, kubernetes, address };
std::string_view name_of(Rung rung);

/// That this host is in the `level` called `name`.
struct Claim {
  Level level = Level::building;
  std::string name;
  Rung rung = Rung::setting;
  std::string source;  ///< for people: the variable, or the file and what in it
  friend bool operator==(const Claim&, const Claim&) = default;
};

/// Where a process is. Of several claims about a level the first counts; the others are kept to be compared with it.
struct Place {
  uint64_t host_id = 0;  ///< equal for processes of one host
  std::string hostname;
  std::vector<Claim> claims;  ///< in the order of trust

  /// The claim that counts; null where nobody names that level.
  [[nodiscard]] const Claim* at(Level level) const;
};

/// Which of a level's members (a building, say) the place is in, as text that is equal for equal members: "eu/fra1" with the levels
/// around it, or "fra1" where those are not known. Where nobody names the level, the next one below that has a name says so
/// ("zone:r1", as what is in one zone is in one building too); "": none has, so that the host stands alone.
std::string member_of(const Place& place, Level level);

/// By rank: a number for each member of the level, in the order of first appearance.
std::vector<int32_t> members_by_rank(std::span<const Place> places, Level level);

/// The lowest level of which both places are in the same member; nothing if they have no level in common.
std::optional<Level> common_level(const Place& a, const Place& b);

/// The highest level that divides the places: region if they are in several, else building, zone, host; nothing for one host.
std::optional<Level> widest_division(std::span<const Place> places);

/// A member of a level and what is in it.
struct Node {
  std::optional<Level> level;  ///< nothing: the whole job
  std::string name;
  uint64_t host_id = 0;              ///< of hosts
  std::vector<std::string> sources;  ///< who named it, without repetition
  std::vector<int32_t> ranks;        ///< all within, ascending
  std::vector<Node> children;        ///< in the order of their first ranks
};

/// The tree of a job, whose rank r is at places[r]. Levels that nobody names are left out.
Node make_tree(std::span<const Place> places);

/// What does not fit together, a line each: rungs that contradict each other, on one host or in how they divide the ranks; a host in two
/// places; levels that are known for some ranks only.
std::vector<std::string> contradictions(std::span<const Place> places);

}  // namespace isthmus::topology
