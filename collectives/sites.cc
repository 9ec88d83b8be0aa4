// SPDX-License-Identifier: Apache-2.0
// Sites and a rank's place in them. See sites.h.
#include "collectives/sites.h"

#include <algorithm>
#include <map>

namespace isthmus::collectives {

Group Sites::inside() const { return {.ranks = members[own], .size = size_of(own), .position = place}; }

std::vector<int32_t> Sites::counterparts() const {
  std::vector<int32_t> result;
  result.reserve(members.size());
  for (const std::vector<int32_t>& site : members) result.push_back(site[static_cast<size_t>(place)]);
  return result;
}

Group Sites::across(const std::vector<int32_t>& counterparts) const {
  return {.ranks = counterparts, .size = static_cast<int32_t>(counterparts.size()), .position = static_cast<int32_t>(own)};
}

Sites::Charges Sites::charges() const {
  Charges result(members[own].size());
  for (auto& positions : result) positions.reserve(place_of.size() / result.size() + 1);
  for (size_t position = 0; position < place_of.size(); ++position) {
    result[static_cast<size_t>(place_of[position] % size_of(own))].push_back(static_cast<int32_t>(position));
  }
  return result;
}

std::vector<size_t> Sites::others() const {
  std::vector<size_t> result;
  result.reserve(members.size());
  for (size_t distance = 1; distance < members.size(); ++distance) result.push_back((own + members.size() - distance) % members.size());
  return result;
}

Sites sites_of(const Shape& shape) {
  Sites sites;
  std::map<int32_t, size_t> numbers;
  for (int32_t position = 0; position < shape.group.size; ++position) {
    const int32_t name = shape.sites.empty() ? 0 : shape.sites[static_cast<size_t>(position)];
    const size_t site = numbers.try_emplace(name, numbers.size()).first->second;
    if (site == sites.members.size()) sites.members.emplace_back();
    sites.site_of.push_back(site);
    sites.place_of.push_back(sites.size_of(site));
    sites.members[site].push_back(position);
  }
  sites.leaders = sites.size_of(0);
  for (size_t site = 1; site < sites.members.size(); ++site) sites.leaders = std::min(sites.leaders, sites.size_of(site));
  const auto me = static_cast<size_t>(shape.group.position);
  sites.own = sites.site_of[me];
  sites.place = sites.place_of[me];
  return sites;
}

}  // namespace isthmus::collectives
