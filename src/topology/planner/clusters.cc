// SPDX-License-Identifier: Apache-2.0
// Single linkage. See clusters.h.
#include "topology/planner/clusters.h"

#include <algorithm>
#include <numeric>

namespace isthmus::topology {
namespace {

struct Link {
  TimeNs round_trip_ns;
  int32_t a, b;
};

/// Sets of hosts that are together.
class Groups {
 public:
  explicit Groups(int32_t hosts) : parent_(static_cast<size_t>(hosts)) { std::iota(parent_.begin(), parent_.end(), 0); }

  int32_t find(int32_t host) {
    while (parent_[static_cast<size_t>(host)] != host) host = parent_[static_cast<size_t>(host)];
    return host;
  }
  /// False: they were together already.
  bool join(int32_t a, int32_t b) {
    const int32_t one = find(a), other = find(b);
    parent_[static_cast<size_t>(std::max(one, other))] = std::min(one, other);
    return one != other;
  }

 private:
  std::vector<int32_t> parent_;
};

/// The links that join groups, the nearest first.
std::vector<Link> merges(int32_t hosts, const std::function<TimeNs(int32_t a, int32_t b)>& round_trip_ns) {
  std::vector<Link> links;
  for (int32_t b = 1; b < hosts; ++b) {
    for (int32_t a = 0; a < b; ++a) links.push_back({.round_trip_ns = std::max<TimeNs>(1, round_trip_ns(a, b)), .a = a, .b = b});
  }
  std::stable_sort(links.begin(), links.end(), [](const Link& one, const Link& other) { return one.round_trip_ns < other.round_trip_ns; });
  Groups groups(hosts);
  std::vector<Link> joining;
  for (const Link& link : links) {
    if (groups.join(link.a, link.b)) joining.push_back(link);
  }
  return joining;
}

}  // namespace

std::vector<int32_t> sites_by_round_trips(int32_t hosts, const std::function<TimeNs(int32_t a, int32_t b)>& round_trip_ns) {
  const std::vector<Link> joining = merges(hosts, round_trip_ns);
  size_t cut = joining.size();  // links from this one on are between sites
  double widest = kSiteGap;
  for (size_t at = 1; at < joining.size(); ++at) {
    const double gap = static_cast<double>(joining[at].round_trip_ns) / static_cast<double>(joining[at - 1].round_trip_ns);
    if (joining[at].round_trip_ns <= kNearRoundTripNs || gap <= widest) continue;
    widest = gap;
    cut = at;
  }
  Groups groups(hosts);
  for (size_t at = 0; at < cut; ++at) groups.join(joining[at].a, joining[at].b);
  std::vector<int32_t> sites, known;
  for (int32_t host = 0; host < hosts; ++host) {
    const int32_t group = groups.find(host);
    const auto found = std::find(known.begin(), known.end(), group);
    sites.push_back(static_cast<int32_t>(found - known.begin()));
    if (found == known.end()) known.push_back(group);
  }
  return sites;
}

}  // namespace isthmus::topology
