// SPDX-License-Identifier: Apache-2.0
// What the results of a survey say, as a profile. See survey.h.
#include <algorithm>
#include <cmath>

#include "topology/planner/survey.h"

namespace isthmus::topology {
namespace {

constexpr uint32_t kBurstGaps = 31;  ///< between the first and the last message of a burst
/// All streams together are slower than so much of what they are alone: they share something.
constexpr double kShares = 0.8;

/// Where there was no time for a burst.
TimeNs assumed_overhead_ns(std::optional<Level> within) {
  for (const LinkFacts& link : prior_profile().links) {
    if (link.within == within) return link.overhead_ns;
  }
  return 0;
}

}  // namespace

// What a host sends to several others at once is not measured: it is taken to be the most that any of these links was seen to carry.
uint64_t SurveyPlan::port(std::optional<Level> within) const {
  double most = 0;
  for (const Pair& pair : pairs_) {
    for (size_t direction = 0; direction < 2 && pair.within == within; ++direction) {
      most = std::max({most, pair.streams[direction].bytes_per_s, pair.cuts[direction].bytes_per_s});
    }
  }
  return within == Level::host ? 0 : static_cast<uint64_t>(std::llround(most));
}

LinkFacts SurveyPlan::facts(const Pair& pair, size_t direction) const {
  LinkFacts facts{.within = pair.within, .from = {}, .to = {}, .gaps = {}};
  facts.latency_ns = pair.round_trip_ns / 2;
  facts.jitter_ns = std::max<TimeNs>(0, pair.slow_trip_ns - pair.round_trip_ns) / 2;
  facts.overhead_ns =
      pair.burst_ns > 0 ? std::max<TimeNs>(0, pair.burst_ns - pair.round_trip_ns) / kBurstGaps : assumed_overhead_ns(pair.within);
  // What was not measured is taken to be as on the way back, or else all streams to share what one of them gets: a guess that is too slow
  // costs less than one that is too quick.
  const double stream = pair.streams[direction].bytes_per_s;
  const double all = pair.cuts[direction].bytes_per_s > 0 ? pair.cuts[direction].bytes_per_s : pair.cuts[1 - direction].bytes_per_s;
  facts.stream_bytes_per_s = static_cast<uint64_t>(std::llround(stream));
  facts.port_bytes_per_s = port(pair.within);
  facts.confidence = Confidence::measured;
  facts.samples = pair.samples;
  facts.measured_at_s = header_[kWallClockS];
  if (!pair.named) return facts;
  const auto& names = layout_.names[static_cast<size_t>(*layout_.widest())];
  const auto name = [&](int32_t rank) { return names[static_cast<size_t>(layout_.member(*layout_.widest(), rank))]; };
  facts.from = name(direction == 0 ? pair.from : pair.to);
  facts.to = name(direction == 0 ? pair.to : pair.from);
  const auto ways = static_cast<double>(counterparts(pair, direction).size());
  if (ways < 2 || all == 0) {
    facts.cut_bytes_per_s = facts.stream_bytes_per_s;
  } else if (all < kShares * ways * stream) {
    facts.cut_bytes_per_s = static_cast<uint64_t>(std::llround(all));
  }
  return facts;
}

Profile SurveyPlan::profile() const {
  const Profile prior = prior_profile();
  Profile profile{.links = {}, .machine = prior.machine};
  for (const Pair& pair : pairs_) {
    if (pair.samples == 0) continue;
    for (size_t direction = 0; direction < (pair.named ? 2U : 1U); ++direction) profile.links.push_back(facts(pair, direction));
  }
  const size_t measured = profile.links.size();
  for (const LinkFacts& assumed : prior.links) {
    const auto is_measured = [&](const LinkFacts& one) { return one.within == assumed.within; };
    if (!std::any_of(profile.links.begin(), profile.links.begin() + static_cast<std::ptrdiff_t>(measured), is_measured)) {
      profile.links.push_back(assumed);
    }
  }
  if (header_[kReduceBytesPerS] > 0 && header_[kCopyBytesPerS] > 0) {
    profile.machine.reduce_bytes_per_s = static_cast<uint64_t>(header_[kReduceBytesPerS]);
    profile.machine.copy_bytes_per_s = static_cast<uint64_t>(header_[kCopyBytesPerS]);
    profile.machine.confidence = Confidence::measured;
  }
  return profile;
}

}  // namespace isthmus::topology
