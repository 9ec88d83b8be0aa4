// SPDX-License-Identifier: Apache-2.0
// Which experiments are made. See survey.h; what their results say is in survey_profile.cc.
#include "topology/planner/survey.h"

#include <algorithm>
#include <utility>

#include "topology/planner/clusters.h"

namespace isthmus::topology {
namespace {

constexpr double kWindowNs = 0.15e9;  ///< what one kind of experiment may take with one pair
constexpr int32_t kMostMembers = 8;   ///< of the widest level: each pair of them is looked at
constexpr size_t kMostCounterparts = 16;
constexpr uint64_t kSmall = Experiment::kAnswerBytes, kRough = 64 << 10, kLeast = 256 << 10, kMost = 8 << 20;
constexpr uint32_t kPlacePings = 3, kRoughPings = 4, kBurst = 32;
constexpr int32_t kLeastPlaced = 3, kMostPlaced = 16;  ///< hosts that are told apart by round trips: 60 round trips at most for each
constexpr double kMostPings = 60;
constexpr int kMostRises = 3;
constexpr size_t kCutSteps = 4;        ///< of a pair: there and back, to wake up and to measure
constexpr double kUnknownRate = 20e9;  ///< of a link on which messages of any size seem to take no time

Experiment pings(int32_t from, int32_t to, uint32_t count) {
  return {.from = from, .to = to, .rounds = std::vector<Round>(1 + count, Round{.bytes = kSmall}), .by_rank = true};
}

}  // namespace

std::array<int64_t, 2> Experiment::report(std::vector<TimeNs> times_ns) const {
  if (!by_rank) return {times_ns[times_ns.size() < 2 ? 0 : times_ns.size() - 2], times_ns.back()};
  if (times_ns.size() > 1) times_ns.erase(times_ns.begin());
  std::sort(times_ns.begin(), times_ns.end());
  return {times_ns.front(), times_ns[(times_ns.size() * 99 + 99) / 100 - 1]};
}

SurveyPlan::SurveyPlan(Layout layout, bool finds_sites) : layout_(std::move(layout)) {
  const int32_t hosts = layout_.count(Level::host);
  if (finds_sites && hosts >= kLeastPlaced && hosts <= kMostPlaced) {
    phase_ = Phase::places;
    add_places();
  } else {
    begin();
  }
}

void SurveyPlan::begin() {
  phase_ = Phase::rough;
  find_pairs();
  add_rough();
  if (experiments_.empty()) phase_ = Phase::over;
}

namespace {

/// As in a tournament: in each turn everybody meets somebody else, so that turns pass at once and nobody is in two at a time.
template <typename Meet>
void all_meet_all(int32_t members, Meet&& meet) {
  const int32_t places = members + members % 2;
  for (int32_t turn = 0; turn < places - 1; ++turn) {
    for (int32_t i = 0; i < places / 2; ++i) {
      const int32_t a = i == 0 ? places - 1 : (turn + i) % (places - 1), b = (turn + places - 1 - i) % (places - 1);
      if (std::max(a, b) < members) meet(std::min(a, b), std::max(a, b));
    }
  }
}

/// Each member's first rank.
std::vector<int32_t> first_ranks(const Layout& layout, Level level) {
  std::vector<int32_t> firsts;
  for (int32_t rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.member(level, rank) == static_cast<int32_t>(firsts.size())) firsts.push_back(rank);
  }
  return firsts;
}

}  // namespace

void SurveyPlan::add_places() {
  const std::vector<int32_t> firsts = first_ranks(layout_, Level::host);
  all_meet_all(layout_.count(Level::host), [&](int32_t a, int32_t b) {
    add({What::place, 0, 0}, pings(firsts[static_cast<size_t>(a)], firsts[static_cast<size_t>(b)], kPlacePings));
  });
}

void SurveyPlan::settle_places() {
  const std::vector<int32_t> by_host = sites_by_round_trips(layout_.count(Level::host), [this](int32_t a, int32_t b) {
    return trips_[{a, b}];
  });
  for (const int32_t host : layout_.hosts()) found_sites_.push_back(by_host[static_cast<size_t>(host)]);
  layout_ = with_buildings(std::move(layout_), found_sites_);
}

// One pair for each kind of link below the widest: the lowest ranks that there are.
void SurveyPlan::find_pairs() {
  const std::optional<Level> widest = layout_.widest();
  if (!widest) return;
  for (size_t level = 0; level <= static_cast<size_t>(*widest); ++level) {
    const auto within = static_cast<Level>(level);
    std::vector<int32_t> firsts;  // by member
    for (int32_t rank = 0; rank < layout_.ranks(); ++rank) {
      const auto member = static_cast<size_t>(layout_.member(within, rank));
      if (member == firsts.size()) firsts.push_back(rank);
      if (firsts[member] == rank || layout_.common(firsts[member], rank) != within) continue;
      pairs_.push_back({.within = within, .from = firsts[member], .to = rank, .streams = {}, .cuts = {}});
      break;
    }
  }
  find_widest_pairs(*widest);
}

void SurveyPlan::find_widest_pairs(Level widest) {
  const std::vector<int32_t> firsts = first_ranks(layout_, widest);
  const auto members = static_cast<int32_t>(firsts.size());
  const auto pair = [&](int32_t a, int32_t b, bool named) {
    const int32_t from = firsts[static_cast<size_t>(a)], to = firsts[static_cast<size_t>(b)];
    pairs_.push_back({.within = layout_.common(from, to), .from = from, .to = to, .named = named, .streams = {}, .cuts = {}});
  };
  if (members > kMostMembers) return pair(0, members / 2, false);
  all_meet_all(members, [&](int32_t a, int32_t b) { pair(a, b, true); });
}

void SurveyPlan::add(const Order& order, Experiment experiment) {
  orders_.push_back(order);
  experiments_.push_back(std::move(experiment));
}

// Ranks work side by side, so each has the whole budget to itself.
bool SurveyPlan::fits(double cost_ns, int32_t from, int32_t to) {
  double &one = busy_ns_[from], &other = busy_ns_[to];
  if (std::max(one, other) + cost_ns > left_ns_) return false;
  one = other = std::max(one, other) + cost_ns;
  return true;
}

void SurveyPlan::add_rough() {
  for (size_t at = 0; at < pairs_.size(); ++at) {
    const Pair& pair = pairs_[at];
    add({What::ping, at, 0}, pings(pair.from, pair.to, kRoughPings));
    const std::vector<Round> rounds(2, Round{.bytes = kRough});  // the first wakes a cold connection up
    add({What::stream, at, 0, kRough}, {.from = pair.from, .to = pair.to, .rounds = rounds});
    if (pair.named) add({What::stream, at, 1, kRough}, {.from = pair.to, .to = pair.from, .rounds = rounds});
  }
}

void SurveyPlan::add_details() {
  for (size_t at = 0; at < pairs_.size(); ++at) {
    const Pair& pair = pairs_[at];
    const double trip_ns = std::max<double>(1, static_cast<double>(pair.round_trip_ns));
    const auto count = static_cast<uint32_t>(std::min(kMostPings, kWindowNs / trip_ns));
    if (count > kRoughPings && fits((1 + count) * trip_ns, pair.from, pair.to)) add({What::ping, at, 0}, pings(pair.from, pair.to, count));
    if (fits(2 * trip_ns, pair.from, pair.to)) {
      add({What::burst, at, 0},
          {.from = pair.from, .to = pair.to, .rounds = std::vector<Round>(2, Round{.bytes = kSmall, .messages = kBurst})});
    }
    for (size_t direction = 0; direction < (pair.named ? 2U : 1U); ++direction) add_stream(at, direction);
  }
}

// A message that wakes the connection up, then two of different sizes: what the larger one takes more is by its bytes alone.
void SurveyPlan::add_stream(size_t at, size_t direction) {
  const Pair& pair = pairs_[at];
  const Rate& known = pair.streams[direction];
  uint64_t bytes = kMost;
  while (bytes >= kLeast && static_cast<double>(bytes) / known.bytes_per_s * 1e9 > kWindowNs) bytes /= 2;
  if (bytes <= known.bytes || bytes < kLeast) return;
  const double cost_ns = 2.5 * static_cast<double>(bytes) / known.bytes_per_s * 1e9 + 3 * static_cast<double>(pair.round_trip_ns);
  if (!fits(cost_ns, pair.from, pair.to)) return;
  const int32_t from = direction == 0 ? pair.from : pair.to, to = direction == 0 ? pair.to : pair.from;
  add({What::stream, at, direction, bytes}, {.from = from, .to = to, .rounds = {{.bytes = bytes}, {.bytes = bytes / 2}, {.bytes = bytes}}});
}

// Where larger messages went quicker, they may go quicker still.
void SurveyPlan::add_more() {
  if (rises_++ >= kMostRises) return;
  for (size_t at = 0; at < pairs_.size(); ++at) {
    for (size_t direction = 0; direction < 2; ++direction) {
      if (pairs_[at].streams[direction].rises) add_stream(at, direction);
    }
  }
}

std::vector<std::pair<int32_t, int32_t>> SurveyPlan::counterparts(const Pair& pair, size_t direction) const {
  const Level level = *layout_.widest();
  std::array<std::vector<int32_t>, 2> ranks;
  for (int32_t rank = 0; rank < layout_.ranks(); ++rank) {
    for (size_t end = 0; end < 2; ++end) {
      const int32_t first = (end == direction) ? pair.from : pair.to;
      if (layout_.member(level, rank) == layout_.member(level, first)) ranks[end].push_back(rank);
    }
  }
  std::vector<std::pair<int32_t, int32_t>> result;
  for (size_t i = 0; i < std::min({ranks[0].size(), ranks[1].size(), kMostCounterparts}); ++i)
    result.emplace_back(ranks[0][i], ranks[1][i]);
  return result;
}

// One cut at a time: all of its pairs begin together because the phase before has ended for all. In a first phase their connections wake
// up. One of them may take all there is and leave the rest to the others when it has ended, so that only the time of all together tells.
void SurveyPlan::add_cut() {
  while (experiments_.empty() && next_cut_ < kCutSteps * pairs_.size()) {
    const size_t at = next_cut_ / kCutSteps, direction = next_cut_ / 2 % 2;
    const bool wakes_up = next_cut_ % 2 == 0;
    ++next_cut_;
    Pair& pair = pairs_[at];
    if (!pair.named) continue;
    const auto ways = counterparts(pair, direction);
    if (ways.size() < 2) continue;
    uint64_t& bytes = pair.cuts[direction].bytes;
    if (wakes_up) {
      const double one_ns = static_cast<double>(ways.size()) / pair.streams[direction].bytes_per_s * 1e9;  // a byte on each way
      uint64_t most = kMost;
      while (most > kRough && static_cast<double>(most) * one_ns > kWindowNs) most /= 2;
      if (fits(1.5 * static_cast<double>(most) * one_ns + 4 * static_cast<double>(pair.round_trip_ns), pair.from, pair.to)) bytes = most;
    }
    if (bytes == 0) continue;  // there was no time left
    // A small round first: with its answer comes the leave to send the large one at once.
    const std::vector<Round> rounds =
        wakes_up ? std::vector<Round>{{.bytes = bytes / 2}} : std::vector<Round>{{.bytes = kSmall}, {.bytes = bytes}};
    for (const auto& [from, to] : ways) {
      add({wakes_up ? What::wake : What::cut, at, direction, bytes}, {.from = from, .to = to, .rounds = rounds});
    }
  }
}

void SurveyPlan::next() {
  orders_.clear();
  experiments_.clear();
  busy_ns_.clear();
  if (phase_ == Phase::places) {
    settle_places();
    return begin();
  }
  left_ns_ = static_cast<double>(header_[kBudgetNs] - header_[kElapsedNs]);
  if (phase_ == Phase::rough) {
    phase_ = Phase::detail;
    add_details();
  } else if (phase_ == Phase::detail) {
    add_more();
  }
  if (!experiments_.empty()) return;
  phase_ = Phase::cuts;
  add_cut();
  if (experiments_.empty()) phase_ = Phase::over;
}

void SurveyPlan::accept(std::span<const int64_t> results) {
  std::copy_n(results.begin(), kHeader, header_.begin());
  for (Pair& pair : pairs_) {
    for (Rate& stream : pair.streams) stream.rises = false;
  }
  for (size_t i = 0; i < orders_.size(); ++i) {
    const size_t at = kHeader + kPerExperiment * i;
    if (orders_[i].what == What::place) {
      const auto& hosts = layout_.hosts();
      trips_[{hosts[static_cast<size_t>(experiments_[i].from)], hosts[static_cast<size_t>(experiments_[i].to)]}] = results[at];
      continue;
    }
    take(orders_[i], results[at], results[at + 1]);
    if (orders_[i].what == What::ping) pairs_[orders_[i].pair].samples += static_cast<uint32_t>(experiments_[i].rounds.size() - 1);
  }
  // All of a cut's ways count together: the slowest tells how long all the bytes took.
  if (!orders_.empty() && orders_[0].what == What::cut) {
    pairs_[orders_[0].pair].cuts[orders_[0].direction].bytes_per_s *= static_cast<double>(orders_.size());
  }
  next();
}

void SurveyPlan::take(const Order& order, TimeNs first, TimeNs second) {
  Pair& pair = pairs_[order.pair];
  // Without the way there and the answer's way back.
  const auto rate_of = [&](uint64_t bytes, TimeNs time) {
    return time <= pair.round_trip_ns
               ? kUnknownRate
               : std::min(kUnknownRate, static_cast<double>(bytes) * 1e9 / static_cast<double>(time - pair.round_trip_ns));
  };
  switch (order.what) {
    case What::ping:
      pair.round_trip_ns = pair.round_trip_ns == 0 ? first : std::min(pair.round_trip_ns, first);
      pair.slow_trip_ns = second;
      break;
    case What::burst:
      pair.burst_ns = std::min(first, second);
      break;
    case What::stream: {
      Rate& stream = pair.streams[order.direction];
      double rate = rate_of(order.bytes, std::min(first, second));
      if (order.bytes > kRough) {
        // By the slope, where noise does not contradict: nothing is slower than with all that is the same for all sizes counted in.
        const double least = rate_of(order.bytes, second);
        const double slope = second <= first ? least : 0.5e9 * static_cast<double>(order.bytes) / static_cast<double>(second - first);
        rate = std::clamp(slope, least, 2 * least);
      }
      stream.rises = order.bytes > kRough && rate > 1.25 * stream.bytes_per_s;
      stream.bytes_per_s = rate;
      stream.bytes = order.bytes;
      break;
    }
    case What::cut: {
      Rate& cut = pair.cuts[order.direction];
      const double rate = rate_of(order.bytes, second);
      cut.bytes_per_s = cut.bytes_per_s == 0 ? rate : std::min(cut.bytes_per_s, rate);
      break;
    }
    case What::wake:
    case What::place:
      break;
  }
}

}  // namespace isthmus::topology
