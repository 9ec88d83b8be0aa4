// SPDX-License-Identifier: Apache-2.0
// What does not fit together in a job's places. See model.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "topology/model.h"

namespace isthmus::topology {
namespace {

using Ranks = std::vector<int32_t>;

/// "rank 3" or "ranks 0-2,5"; "" in a job of one.
std::string who(const Ranks& ranks, size_t all) {
  if (all < 2) return "";
  return fmt::format("{} {}: ", ranks.size() == 1 ? "rank" : "ranks", number_ranges(ranks));
}

/// Settings and files are written by the same people, who call a building by one name; what the other rungs call it may differ.
bool is_written(const Claim& claim) { return claim.rung == Rung::setting || claim.rung == Rung::file; }

/// Within one host: a name in a setting and another in a file.
void compare_names(std::span<const Place> places, std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, Ranks>> found;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (const Claim& claim : places[rank].claims) {
      const Claim& first = *places[rank].at(claim.level);
      if (claim.name == first.name || !is_written(claim) || !is_written(first)) continue;
      std::string line = fmt::format("{} says {} '{}', which counts, but {} says '{}'", first.source, name_of(first.level), first.name,
                                     claim.source, claim.name);
      auto known = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.first == line; });
      if (known == found.end()) known = found.insert(found.end(), {line, {}});
      known->second.push_back(static_cast<int32_t>(rank));
    }
  }
  for (const auto& [line, ranks] : found) lines.push_back(who(ranks, places.size()) + line);
}

/// One host, two places.
void compare_hosts(std::span<const Place> places, std::vector<std::string>& lines) {
  std::map<uint64_t, size_t> first_of;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const auto [known, is_new] = first_of.try_emplace(places[rank].host_id, rank);
    if (is_new) continue;
    for (const Level level : kNamedLevels) {
      const Claim *a = places[known->second].at(level), *b = places[rank].at(level);
      if (a == nullptr || b == nullptr || a->name == b->name) continue;
      lines.push_back(fmt::format("ranks {} and {} are on host {}, but one is in {} '{}' ({}), the other in '{}' ({})", known->second, rank,
                                  places[rank].hostname, name_of(level), a->name, a->source, b->name, b->source));
      first_of[places[rank].host_id] = rank;  // so that every change is said once, not for every rank after it
      break;
    }
  }
}

/// A level that is named for some ranks and not for others.
void find_gaps(std::span<const Place> places, std::vector<std::string>& lines) {
  for (const Level level : kNamedLevels) {
    Ranks without;
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (places[rank].at(level) == nullptr) without.push_back(static_cast<int32_t>(rank));
    }
    if (without.empty() || without.size() == places.size()) continue;
    lines.push_back(fmt::format("{}the {} is not known, which others know; they are taken to be elsewhere", who(without, places.size()),
                                name_of(level)));
  }
}

const Claim* claim_by(const Place& place, Level level, Rung rung) {
  const auto found = std::find_if(place.claims.begin(), place.claims.end(),
                                  [&](const Claim& claim) { return claim.level == level && claim.rung == rung; });
  return found == place.claims.end() ? nullptr : &*found;
}

/// The member that `rung` alone would put the place in: "eu/fra1"; a zone's name may occur in several buildings.
std::string path_by(const Place& place, Level level, Rung rung) {
  std::string path;
  for (const Level at : kNamedLevels) {
    const Claim* claim = at < level ? nullptr : claim_by(place, at, rung);
    if (claim != nullptr) path += '/' + claim->name;
  }
  return path;
}

/// The first pair of ranks that what counts puts together and `rung` apart, or the reverse; "" if they divide the ranks alike.
std::string disagreement(std::span<const Place> places, Level level, Rung rung) {
  std::map<std::string, size_t> by_first, by_other;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const Claim *first = places[rank].at(level), *other = claim_by(places[rank], level, rung);
    if (first == nullptr || other == nullptr || first->rung == rung) continue;
    const std::string path = path_by(places[rank], level, rung);
    const size_t same = by_first.try_emplace(member_of(places[rank], level), rank).first->second;
    const size_t likewise = by_other.try_emplace(path, rank).first->second;
    if (same == likewise) continue;
    const bool together = same < rank && path_by(places[same], level, rung) != path;
    return fmt::format("{} puts ranks {} and {} into {}, which counts, but {} puts them into {}", first->source, together ? same : likewise,
                       rank, together ? fmt::format("one {}", name_of(level)) : fmt::format("two {}s", name_of(level)), other->source,
                       together ? "two" : "one");
  }
  return "";
}

void compare_divisions(std::span<const Place> places, std::vector<std::string>& lines) {
  for (const Level level : kNamedLevels) {
    for (const Rung rung : {Rung::file, Rung::slurm, Rung::kubernetes, Rung::address}) {
      if (std::string line = disagreement(places, level, rung); !line.empty()) lines.push_back(std::move(line));
    }
  }
}

}  // namespace

std::vector<std::string> contradictions(std::span<const Place> places) {
  std::vector<std::string> lines;
  compare_names(places, lines);
  compare_hosts(places, lines);
  compare_divisions(places, lines);
  find_gaps(places, lines);
  return lines;
}

}  // namespace isthmus::topology
