// SPDX-License-Identifier: Apache-2.0
// Reads what ucp_ep_print_info writes: before UCX 1.14 there is no other way to learn an endpoint's lanes. See ucx.h.
#include <algorithm>

#include "base/text.h"
#include "topology/discover/ucx.h"

namespace isthmus::topology {
namespace {

/// "lane[0]:  1:tcp/eth0.0 md[1]  -> ..." to "tcp/eth0": between the resource's number and the path's.
std::string lane_of(std::string_view line) {
  const size_t lane = line.find("lane[");
  if (lane == std::string_view::npos) return "";
  const size_t colon = line.find(':', lane);
  if (colon == std::string_view::npos) return "";
  std::string_view rest = trim(line.substr(colon + 1));
  const size_t number = rest.find(':');
  if (number == std::string_view::npos) return "";
  rest = rest.substr(number + 1);
  rest = rest.substr(0, rest.find(' '));
  return std::string(rest.substr(0, rest.rfind('.')));
}

}  // namespace

std::vector<std::string> lanes_of_listing(std::string_view listing) {
  std::vector<std::string> lanes;
  for (const std::string_view line : split(listing, '\n')) {
    std::string lane = lane_of(line);
    if (lane.empty() || std::find(lanes.begin(), lanes.end(), lane) != lanes.end()) continue;
    const auto uses = split(line, ' ');
    if (std::find(uses.begin(), uses.end(), "am") != uses.end()) {
      lanes.insert(lanes.begin(), std::move(lane));
    } else {
      lanes.push_back(std::move(lane));
    }
  }
  return lanes;
}

}  // namespace isthmus::topology
