// SPDX-License-Identifier: Apache-2.0
// Layouts and their texts. See layout.h.
#include "topology/planner/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"

namespace isthmus::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kAllLevels = {Level::host, Level::zone, Level::building, Level::region};
constexpr uint64_t kMostRanks = 4096;

/// What the member is called: the path of the highest level, from this one down, that somebody names, or else the host's name.
std::string name_at(const Place& place, Level level) {
  for (auto at = static_cast<size_t>(level); at > static_cast<size_t>(Level::host); --at) {
    if (place.at(kAllLevels[at]) != nullptr) return member_of(place, kAllLevels[at]);
  }
  return place.hostname;
}

Place place_of(std::string building, int32_t host, uint64_t id) {
  Place place{.host_id = id, .hostname = fmt::format("{}-{}", building, host), .claims = {}};
  place.claims.push_back({.level = Level::building, .name = std::move(building), .rung = Rung::setting, .source = "the command line"});
  return place;
}

/// "2x4x8" and "3+5x2": hosts by building, and ranks of a host.
struct Numbers {
  std::vector<uint64_t> hosts;
  uint64_t ranks_per_host = 1;
};

Result<uint64_t> parse_number(std::string_view text) {
  auto number = parse_unsigned(text, kMostRanks);
  if (number.ok() && *number == 0) return invalid_argument("0 is too few");
  return number;
}

Result<Numbers> parse_numbers(std::string_view text) {
  Numbers numbers;
  const auto factors = split(text, 'x');
  const bool uneven = text.find('+') != std::string_view::npos;
  if (static_cast<std::ptrdiff_t>(factors.size()) != 1 + std::count(text.begin(), text.end(), 'x'))
    return invalid_argument("'x' without a number");
  if (factors.empty() || factors.size() > (uneven ? 2 : 3)) return invalid_argument("wrong number of factors");
  size_t at = 1;
  if (uneven) {
    const auto parts = split(factors[0], '+');
    if (static_cast<std::ptrdiff_t>(parts.size()) != 1 + std::count(text.begin(), text.end(), '+'))
      return invalid_argument("'+' without a number");
    for (const std::string_view part : parts) {
      ISTHMUS_ASSIGN(const uint64_t hosts, parse_number(part));
      numbers.hosts.push_back(hosts);
    }
  } else {
    ISTHMUS_ASSIGN(const uint64_t buildings, parse_number(factors[0]));
    uint64_t hosts = 1;
    if (factors.size() > 1) {
      ISTHMUS_ASSIGN(hosts, parse_number(factors[1]));
    }
    numbers.hosts.assign(buildings, hosts);
    at = 2;
  }
  if (factors.size() > at) {
    ISTHMUS_ASSIGN(numbers.ranks_per_host, parse_number(factors[at]));
  }
  return numbers;
}

Result<std::vector<Place>> places_of_numbers(std::string_view text) {
  constexpr std::string_view kCyclic = "/cyclic";
  const bool cyclic = text.ends_with(kCyclic);
  if (cyclic) text.remove_suffix(kCyclic.size());
  auto numbers = parse_numbers(text);
  if (!numbers.ok()) {
    return numbers.status().with_context(
        fmt::format("'{}': BUILDINGSxHOSTS, BUILDINGSxHOSTSxRANKS or HOSTS+HOSTS[xRANKS] is accepted, with /cyclic or without", text));
  }
  std::vector<std::vector<Place>> buildings;
  uint64_t id = 1, total = 0, longest = 0;
  for (const uint64_t hosts : numbers->hosts) {
    total += hosts * numbers->ranks_per_host;
    longest = std::max(longest, hosts * numbers->ranks_per_host);
    if (total > kMostRanks) return invalid_argument(fmt::format("'{}' has more than {} ranks", text, kMostRanks));
    auto& building = buildings.emplace_back();
    for (uint64_t rank = 0; rank < hosts * numbers->ranks_per_host; ++rank) {
      const uint64_t host = rank / numbers->ranks_per_host;
      building.push_back(place_of(fmt::format("b{}", buildings.size() - 1), static_cast<int32_t>(host), id + host));
    }
    id += hosts;
  }
  std::vector<Place> places;
  if (!cyclic) {
    for (const auto& building : buildings) places.insert(places.end(), building.begin(), building.end());
    return places;
  }
  for (uint64_t turn = 0; turn < longest; ++turn) {
    for (const auto& building : buildings) {
      if (turn < building.size()) places.push_back(building[turn]);
    }
  }
  return places;
}

Result<std::vector<Place>> places_of_json(std::string_view text) {
  std::vector<Place> places;
  try {
    const Json json = Json::parse(text);
    if (json.at("schema") != "isthmus.topo/1")
      return invalid_argument("schema must be \"isthmus.topo/1\": 'isthmus topo --json' writes it");
    for (const Json& row : json.at("ranks")) {
      Place place{.host_id = hash_text(row.at("host").get<std::string>()), .hostname = row.at("host").get<std::string>(), .claims = {}};
      for (const auto& [name, claim] : row.at("levels").items()) {
        const auto level = level_named(name);
        if (!level || *level == Level::host) return invalid_argument(fmt::format("'{}' is none of region, building, zone", name));
        place.claims.push_back({.level = *level, .name = claim.at("name").get<std::string>(), .rung = Rung::file, .source = "topology"});
      }
      places.push_back(std::move(place));
    }
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("no topology as 'isthmus topo --json' writes it: {}", error.what()));
  }
  if (places.empty() || places.size() > kMostRanks) return invalid_argument(fmt::format("1 to {} ranks are accepted", kMostRanks));
  return places;
}

}  // namespace

std::vector<int32_t> Layout::divisions() const {
  std::vector<int32_t> result;
  int32_t before = 1;
  for (auto level = kAllLevels.rbegin(); level != kAllLevels.rend(); ++level) {
    if (count(*level) == before) continue;
    before = count(*level);
    const std::vector<int32_t>& members = member_of[static_cast<size_t>(*level)];
    result.insert(result.end(), members.begin(), members.end());
  }
  return result;
}

std::optional<Level> Layout::common(int32_t a, int32_t b) const {
  for (const Level level : kAllLevels) {
    if (member(level, a) == member(level, b)) return level;
  }
  return std::nullopt;
}

std::optional<Level> Layout::widest() const {
  for (auto level = kAllLevels.rbegin(); level != kAllLevels.rend(); ++level) {
    if (count(*level) > 1) return *level;
  }
  return std::nullopt;
}

std::string Layout::text() const {
  std::string text = fmt::format("{} rank{}", ranks(), ranks() == 1 ? "" : "s");
  int32_t below = -1;
  for (const Level level : kAllLevels) {
    const int32_t members = count(level);
    if (members == below) continue;  // a level that nobody names, or that divides nothing
    text += fmt::format(", {} {}{}", members, name_of(level), members == 1 ? "" : "s");
    below = members;
  }
  return text;
}

uint64_t Layout::hash() const {
  Hasher hasher;
  for (const auto& level : {hosts(), sites()}) hasher.add(std::as_bytes(std::span(level)));
  return hasher.value();
}

Layout layout_of(std::span<const Place> places) {
  Layout layout;
  for (const Level level : kAllLevels) {
    const auto at = static_cast<size_t>(level);
    layout.member_of[at] = members_by_rank(places, level);
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (static_cast<size_t>(layout.member_of[at][rank]) == layout.names[at].size()) {
        layout.names[at].push_back(name_at(places[rank], level));
      }
    }
  }
  layout.cpus_of_hosts.assign(layout.names[0].size(), 0);
  return layout;
}

std::string measured_name(int32_t building) { return fmt::format("m{}", building); }

Layout with_buildings(Layout layout, std::span<const int32_t> building_by_rank) {
  const int32_t count = building_by_rank.empty() ? 0 : 1 + *std::max_element(building_by_rank.begin(), building_by_rank.end());
  for (const Level level : {Level::building, Level::region}) {
    const auto at = static_cast<size_t>(level);
    layout.member_of[at].assign(building_by_rank.begin(), building_by_rank.end());
    layout.names[at].clear();
    for (int32_t building = 0; building < count; ++building) layout.names[at].push_back(measured_name(building));
  }
  return layout;
}

void set_cpus(Layout& layout, std::span<const int32_t> cpus_by_rank) {
  for (size_t rank = 0; rank < cpus_by_rank.size(); ++rank) {
    int32_t& cpus = layout.cpus_of_hosts[static_cast<size_t>(layout.hosts()[rank])];
    cpus = std::max(cpus, cpus_by_rank[rank]);
  }
}

Result<Layout> parse_layout(std::string_view text) {
  auto places = trim(text).starts_with('{') ? places_of_json(text) : places_of_numbers(trim(text));
  if (!places.ok()) return places.status();
  return layout_of(*places);
}

}  // namespace isthmus::topology
