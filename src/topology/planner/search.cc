// SPDX-License-Identifier: Apache-2.0
// From priced sizes to intervals. See search.h.
#include "topology/planner/search.h"

#include <algorithm>
#include <optional>

namespace isthmus::topology {
namespace {

using collectives::Choice;

/// Borders between two choices are found to within a quarter of a power of two: steps of bisection between neighbouring sizes.
constexpr int kBisections = 2;
/// Who takes so many times as long as the quickest is not even a runner-up.
constexpr double kPatience = 2;
/// Sizes are first looked at this many powers of two apart, and in between only where the choice differs.
constexpr int kStride = 3;

class IntervalSearch {
 public:
  IntervalSearch(const SearchOptions& options, Collective collective, Pricer& pricer)
      : options_(options), collective_(collective), pricer_(pricer) {}

  Result<std::vector<Interval>> run() {
    ISTHMUS_ASSIGN(Interval first, decide(options_.least_bytes, Choice()));
    intervals_.push_back(first);
    for (uint64_t bytes = options_.least_bytes; bytes < options_.most_bytes;) {
      const uint64_t next = std::min(bytes << kStride, options_.most_bytes);
      ISTHMUS_TRY(fill(bytes, next));
      bytes = next;
    }
    return std::move(intervals_);
  }

 private:
  /// From `low`, of which the last interval speaks, to `high`: one interval if the choice stays, else both halves.
  Status fill(uint64_t low, uint64_t high) {  // NOLINT(misc-no-recursion)
    ISTHMUS_ASSIGN(const Interval at_high, decide(high, intervals_.back().choice));
    if (intervals_.back().choice == at_high.choice) {
      update(intervals_.back(), at_high);
      return {};
    }
    if (high <= 2 * low) return begin(at_high, low, high);
    uint64_t middle = low;
    while (middle < high / (middle / low)) middle *= 2;
    ISTHMUS_TRY(fill(low, middle));
    return fill(middle, high);
  }

  /// Keeps the choice of smaller sizes unless another one is quicker by more than the hysteresis.
  Result<Interval> decide(uint64_t bytes, const Choice& before) {
    ISTHMUS_ASSIGN(const std::vector<Price> prices, pricer_.best(collective_, bytes, before, options_.hysteresis, kPatience));
    if (prices.empty()) return internal_error("no algorithm serves so many ranks");
    Price chosen = preferred(prices);
    for (const Price& one : prices) {
      const bool near = static_cast<double>(one.time_ns) <= static_cast<double>(prices.front().time_ns) * (1 + options_.hysteresis);
      if (one.choice == before && near) chosen = one;
    }
    Interval interval{.collective = collective_, .choice = chosen.choice, .at_bytes = bytes, .predicted_ns = chosen.time_ns};
    interval.walked = chosen.walked;
    interval.bound_ns = pricer_.formulas().physical_bound_ns(collective_, bytes);
    const auto other = std::find_if(prices.begin(), prices.end(), [&](const Price& one) { return !(one.choice == chosen.choice); });
    if (other != prices.end()) {
      interval.runner_up = other->choice;
      interval.runner_up_ns = other->time_ns;
    }
    return interval;
  }

  /// A new interval; its border with the one before is where the new choice becomes the better one, between the two sizes.
  Status begin(Interval next, uint64_t low, uint64_t high) {
    Interval& before = intervals_.back();
    for (int step = 0; step < kBisections && high - low > 8; ++step) {
      const uint64_t middle = low + (high - low) / 2;
      ISTHMUS_ASSIGN(const Price old_price, pricer_.price(before.choice, middle));
      ISTHMUS_ASSIGN(const Price new_price, pricer_.price(next.choice, middle));
      if (old_price.walked != new_price.walked) break;  // the two kinds cannot be compared
      (new_price.time_ns < old_price.time_ns ? high : low) = middle;
    }
    before.max_bytes = high - 1;
    next.min_bytes = high;
    intervals_.push_back(next);
    return {};
  }

  /// The figures of an interval are those of its largest size that was looked at, where they weigh most.
  static void update(Interval& interval, const Interval& later) {
    const uint64_t min_bytes = interval.min_bytes;
    interval = later;
    interval.min_bytes = min_bytes;
  }

  const SearchOptions& options_;
  Collective collective_;
  Pricer& pricer_;
  std::vector<Interval> intervals_;
};

/// What the pin does not cover of an interval, and the pin.
std::vector<Interval> with_pin(const std::vector<Interval>& intervals, const Pin& pin) {
  std::vector<Interval> result;
  bool placed = false;
  const auto place = [&] {
    if (!std::exchange(placed, true)) {
      result.push_back({.collective = pin.collective,
                        .min_bytes = pin.min_bytes,
                        .max_bytes = pin.max_bytes,
                        .choice = pin.choice,
                        .pinned = true,
                        .runner_up = {}});
    }
  };
  for (const Interval& one : intervals) {
    if (one.collective != pin.collective || one.max_bytes < pin.min_bytes || one.min_bytes > pin.max_bytes) {
      if (one.collective == pin.collective && one.min_bytes > pin.max_bytes) place();
      result.push_back(one);
      continue;
    }
    if (one.min_bytes < pin.min_bytes) {
      result.push_back(one);
      result.back().max_bytes = pin.min_bytes - 1;
    }
    place();
    if (one.max_bytes > pin.max_bytes) {
      result.push_back(one);
      result.back().min_bytes = pin.max_bytes + 1;
    }
  }
  return result;
}

Status price_pins(std::vector<Interval>& intervals, Pricer& pricer, uint64_t most_bytes) {
  for (Interval& one : intervals) {
    if (!one.pinned) continue;
    one.at_bytes = std::min(one.max_bytes, std::max(one.min_bytes, most_bytes));
    ISTHMUS_ASSIGN(const Price price, pricer.price(one.choice, one.at_bytes));
    one.predicted_ns = price.time_ns;
    one.walked = price.walked;
    one.bound_ns = pricer.formulas().physical_bound_ns(one.collective, one.at_bytes);
  }
  return {};
}

}  // namespace

Result<std::vector<Interval>> search(const Scene& scene, const SearchOptions& options) {
  std::vector<Interval> intervals;
  if (scene.ranks() < 2) return intervals;
  Pricer pricer(scene, options.most_events);
  for (const Collective collective : options.collectives) {
    ISTHMUS_ASSIGN(const std::vector<Interval> found, IntervalSearch(options, collective, pricer).run());
    intervals.insert(intervals.end(), found.begin(), found.end());
  }
  // The first of several pins counts, so it is laid on last.
  for (auto pin = options.pins.rbegin(); pin != options.pins.rend(); ++pin) intervals = with_pin(intervals, *pin);
  ISTHMUS_TRY(price_pins(intervals, pricer, options.most_bytes));
  return intervals;
}

}  // namespace isthmus::topology
