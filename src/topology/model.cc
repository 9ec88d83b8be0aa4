// SPDX-License-Identifier: Apache-2.0
// Places, their members and the tree. See model.h.
#include "topology/model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace isthmus::topology {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"host", "zone", "building", "region"};
constexpr std::array kLevels = {Level::host, Level::zone, Level::building, Level::region};

/// Two ranks are in the same member if these are equal.
std::pair<std::string, uint64_t> key_of(const Place& place, Level level) {
  std::string member = level == Level::host ? std::string() : member_of(place, level);
  const uint64_t host = member.empty() ? place.host_id : 0;
  return {std::move(member), host};
}

Node& child_of(Node& parent, Level level, const std::string& name, uint64_t host_id) {
  for (Node& child : parent.children) {
    if (child.level == level && child.name == name && child.host_id == host_id) return child;
  }
  parent.children.push_back({.level = level, .name = name, .host_id = host_id});
  return parent.children.back();
}

void add_source(Node& node, const std::string& source) {
  if (std::find(node.sources.begin(), node.sources.end(), source) == node.sources.end()) node.sources.push_back(source);
}

}  // namespace

std::string_view name_of(Level level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<Level> level_named(std::string_view name) {
  for (const Level level : kLevels) {
    if (name_of(level) == lower(name)) return level;
  }
  return std::nullopt;
}

std::string_view name_of(Rung rung) {
  constexpr std::array<std::string_view, 5> kNames = {"setting", "file", "slurm", "kubernetes", "address"};
  return kNames[static_cast<size_t>(rung)];
}

const Claim* Place::at(Level level) const {
  const auto found = std::find_if(claims.begin(), claims.end(), [&](const Claim& claim) { return claim.level == level; });
  return found == claims.end() ? nullptr : &*found;
}

std::string member_of(const Place& place, Level level) {
  std::string path;
  for (const Level at : kNamedLevels) {
    if (at < level && place.at(level) != nullptr) break;
    const Claim* claim = place.at(at);
    if (claim == nullptr) continue;
    if (!path.empty()) path += '/';
    if (at < level) return path + std::string(name_of(at)) + ':' + claim->name;
    path += claim->name;
  }
  return place.at(level) != nullptr ? path : std::string();
}

std::vector<int32_t> members_by_rank(std::span<const Place> places, Level level) {
  std::map<std::pair<std::string, uint64_t>, int32_t> known;
  std::vector<int32_t> members;
  members.reserve(places.size());
  for (const Place& place : places) {
    members.push_back(known.try_emplace(key_of(place, level), static_cast<int32_t>(known.size())).first->second);
  }
  return members;
}

std::optional<Level> common_level(const Place& a, const Place& b) {
  if (a.host_id == b.host_id) return Level::host;
  for (const Level level : kLevels) {
    const auto key = key_of(a, level);
    if (!key.first.empty() && key == key_of(b, level)) return level;
  }
  return std::nullopt;
}

std::optional<Level> widest_division(std::span<const Place> places) {
  for (size_t at = kLevels.size(); at-- > 0;) {
    const Level level = kLevels[at];
    const bool named =
        level == Level::host || std::any_of(places.begin(), places.end(), [&](const Place& place) { return place.at(level); });
    const auto members = members_by_rank(places, level);
    if (named && std::any_of(members.begin(), members.end(), [](int32_t member) { return member != 0; })) return level;
  }
  return std::nullopt;
}

Node make_tree(std::span<const Place> places) {
  Node job;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const Place& place = places[rank];
    Node* node = &job;
    node->ranks.push_back(static_cast<int32_t>(rank));
    for (const Level level : kNamedLevels) {
      const Claim* claim = place.at(level);
      if (claim == nullptr) continue;
      node = &child_of(*node, level, claim->name, 0);
      node->ranks.push_back(static_cast<int32_t>(rank));
      add_source(*node, claim->source);
    }
    node = &child_of(*node, Level::host, place.hostname, place.host_id);
    node->ranks.push_back(static_cast<int32_t>(rank));
  }
  return job;
}

}  // namespace isthmus::topology
