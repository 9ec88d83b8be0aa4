// SPDX-License-Identifier: Apache-2.0
// The links of linkemu in virtual time: rates, delays, queues, cuts, loss and order are exactly as set, and one seed is one run.
#include "linkemu/shaper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace linkemu {
namespace {

using isthmus::kMillisecondNs;
using isthmus::kNever;
using isthmus::kSecondNs;

constexpr size_t kFrameBytes = 1000;
constexpr uint64_t kRate = 8'000'000;  // a frame takes a millisecond

/// A frame that remembers its number.
Frame numbered(uint32_t number, size_t bytes = kFrameBytes) {
  Frame frame(bytes);
  for (size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::byte>(number >> 8 * i);
  return frame;
}

uint32_t number_of(const Frame& frame) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= std::to_integer<uint32_t>(frame[i]) << 8 * i;
  return number;
}

struct Arrival {
  int link;
  uint32_t number;
  TimeNs at;
  bool operator==(const Arrival& other) const { return std::tie(link, number, at) == std::tie(other.link, other.number, other.at); }
};

/// Goes from event to event up to `end`.
std::vector<Arrival> run(Shaper& shaper, TimeNs end = kNever) {
  std::vector<Arrival> arrivals;
  for (TimeNs at = shaper.next_event(); at != kNever && at <= end; at = shaper.next_event()) {
    for (const auto& delivery : shaper.poll(at)) arrivals.push_back({delivery.link, number_of(delivery.frame), at});
  }
  return arrivals;
}

/// One link through one queue.
struct One {
  Shaper shaper{1};
  int queue = shaper.add_queue();
  int link = shaper.add_link({queue});
};

TEST(LinkemuShaper, WithoutSettingsAFrameArrivesAtOnce) {
  One one;
  one.shaper.offer(one.link, numbered(7), 5);
  EXPECT_EQ(one.shaper.next_event(), 5);
  const auto due = one.shaper.poll(5);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(number_of(due[0].frame), 7u);
  EXPECT_EQ(one.shaper.next_event(), kNever);
}

TEST(LinkemuShaper, RateAndDelayAreExact) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate}, 0);
  one.shaper.set_line(one.link, {.delay_ns = 10 * kMillisecondNs}, 0);
  for (uint32_t i = 0; i < 100; ++i) one.shaper.offer(one.link, numbered(i), 0);
  const auto arrivals = run(one.shaper);
  ASSERT_EQ(arrivals.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(arrivals[i], (Arrival{one.link, i, (i + 1 + 10) * kMillisecondNs}));
  EXPECT_EQ(one.shaper.counters(one.link).delivered.bytes, 100 * kFrameBytes);
}

TEST(LinkemuShaper, AnIdleLinkSavesNothingUp) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate}, 0);
  one.shaper.offer(one.link, numbered(0), kSecondNs);
  one.shaper.offer(one.link, numbered(1), kSecondNs);
  const auto arrivals = run(one.shaper);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[1].at, kSecondNs + 2 * kMillisecondNs);
}

TEST(LinkemuShaper, ALateCallerDoesNotSlowTheLink) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate}, 0);
  for (uint32_t i = 0; i < 10; ++i) one.shaper.offer(one.link, numbered(i), 0);
  EXPECT_TRUE(one.shaper.poll(kMillisecondNs - 1).empty());
  EXPECT_EQ(one.shaper.poll(7 * kMillisecondNs + 1).size(), 7u);
  EXPECT_EQ(one.shaper.next_event(), 8 * kMillisecondNs);
}

TEST(LinkemuShaper, ItWakesNobodyForWhatHappensInQueues) {
  Shaper shaper(1);
  const int first = shaper.add_queue(), second = shaper.add_queue();
  const int link = shaper.add_link({first, second});
  shaper.set_line(link, {.delay_ns = 10 * kMillisecondNs}, 0);
  for (const int queue : {first, second}) shaper.set_queue(queue, {.rate_bits_per_s = kRate}, 0);
  for (uint32_t i = 0; i < 4; ++i) shaper.offer(link, numbered(i), 0);
  std::vector<TimeNs> woken;
  for (TimeNs at = shaper.next_event(); at != kNever; at = shaper.next_event()) {
    woken.push_back(at);
    EXPECT_EQ(shaper.poll(at).size(), at < 12 * kMillisecondNs ? 0u : 1u);
  }
  EXPECT_EQ(woken.size(), 5u);  // once too early, as nobody knew what the second queue would do
}

TEST(LinkemuShaper, AFullQueueDropsTheLast) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate, .limit_bytes = 3 * kFrameBytes}, 0);
  for (uint32_t i = 0; i < 5; ++i) one.shaper.offer(one.link, numbered(i), 0);
  one.shaper.offer(one.link, numbered(5), kMillisecondNs);  // the first has just left
  std::vector<uint32_t> numbers;
  for (const Arrival& arrival : run(one.shaper)) numbers.push_back(arrival.number);
  EXPECT_EQ(numbers, (std::vector<uint32_t>{0, 1, 2, 5}));
  EXPECT_EQ(one.shaper.counters(one.link).dropped.frames, 2u);
  EXPECT_EQ(one.shaper.counters(one.link).dropped.bytes, 2 * kFrameBytes);
  EXPECT_EQ(one.shaper.most_queued_bytes(one.queue), 3 * kFrameBytes);
}

TEST(LinkemuShaper, AnEmptyQueueTakesAFrameBeyondItsLimit) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate, .limit_bytes = 10}, 0);
  one.shaper.offer(one.link, numbered(0), 0);
  one.shaper.offer(one.link, numbered(1), 0);
  EXPECT_EQ(run(one.shaper).size(), 1u);
}

TEST(LinkemuShaper, LinksShareACut) {
  Shaper shaper(1);
  const int cut = shaper.add_queue();
  const int a = shaper.add_link({cut}), b = shaper.add_link({cut});
  shaper.set_queue(cut, {.rate_bits_per_s = kRate}, 0);
  for (uint32_t i = 0; i < 50; ++i) {
    shaper.offer(a, numbered(i), 0);
    shaper.offer(b, numbered(i), 0);
  }
  const auto arrivals = run(shaper);
  ASSERT_EQ(arrivals.size(), 100u);
  EXPECT_EQ(arrivals.back(), (Arrival{b, 49, 100 * kMillisecondNs}));
  EXPECT_EQ(arrivals[98], (Arrival{a, 49, 99 * kMillisecondNs}));
}

TEST(LinkemuShaper, TheSlowestOfSeveralQueuesDecides) {
  Shaper shaper(1);
  const int fast = shaper.add_queue(), slow = shaper.add_queue();
  const int link = shaper.add_link({fast, slow});
  shaper.set_queue(fast, {.rate_bits_per_s = 2 * kRate}, 0);
  shaper.set_queue(slow, {.rate_bits_per_s = kRate}, 0);
  for (uint32_t i = 0; i < 100; ++i) shaper.offer(link, numbered(i), 0);
  const auto arrivals = run(shaper);
  ASSERT_EQ(arrivals.size(), 100u);
  EXPECT_EQ(arrivals.back().at, 100 * kMillisecondNs + kMillisecondNs / 2);  // the first frame's way through the fast one
}

TEST(LinkemuShaper, ANewRateHoldsForTheRestOfAFrame) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate}, 0);
  for (uint32_t i = 0; i < 3; ++i) one.shaper.offer(one.link, numbered(i), 0);
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate / 4}, kMillisecondNs / 2);
  EXPECT_EQ(run(one.shaper, 7 * kMillisecondNs),
            (std::vector<Arrival>{{one.link, 0, 5 * kMillisecondNs / 2}, {one.link, 1, 13 * kMillisecondNs / 2}}));
  one.shaper.set_queue(one.queue, {}, 7 * kMillisecondNs);  // no limit: the rest comes at once
  EXPECT_EQ(run(one.shaper), (std::vector<Arrival>{{one.link, 2, 7 * kMillisecondNs}}));
}

TEST(LinkemuShaper, AShorterDelayDoesNotOvertake) {
  One one;
  one.shaper.set_line(one.link, {.delay_ns = 20 * kMillisecondNs}, 0);
  one.shaper.offer(one.link, numbered(0), 0);
  one.shaper.set_line(one.link, {.delay_ns = kMillisecondNs}, 1);
  one.shaper.offer(one.link, numbered(1), 1);
  EXPECT_EQ(run(one.shaper), (std::vector<Arrival>{{one.link, 0, 20 * kMillisecondNs}, {one.link, 1, 20 * kMillisecondNs}}));
  one.shaper.offer(one.link, numbered(2), kSecondNs);
  EXPECT_EQ(run(one.shaper), (std::vector<Arrival>{{one.link, 2, kSecondNs + kMillisecondNs}}));
}

TEST(LinkemuShaper, JitterIsUniformAndKeepsTheOrder) {
  One one;
  one.shaper.set_line(one.link, {.delay_ns = 10 * kMillisecondNs, .jitter_ns = 4 * kMillisecondNs}, 0);
  double sum = 0, squares = 0;
  constexpr uint32_t kFrames = 20'000;
  for (uint32_t i = 0; i < kFrames; ++i) {  // far apart, so that none waits for another
    const TimeNs sent = static_cast<TimeNs>(i) * 100 * kMillisecondNs;
    one.shaper.offer(one.link, numbered(i), sent);
    const auto arrivals = run(one.shaper);
    ASSERT_EQ(arrivals.size(), 1u);
    const double delay = static_cast<double>(arrivals[0].at - sent) / kMillisecondNs;
    ASSERT_GE(delay, 6);
    ASSERT_LE(delay, 14);
    sum += delay;
    squares += delay * delay;
  }
  const double mean = sum / kFrames;
  EXPECT_NEAR(mean, 10, 0.1);
  EXPECT_NEAR(std::sqrt(squares / kFrames - mean * mean), 8 / std::sqrt(12.0), 0.05);
  for (uint32_t i = 0; i < 1000; ++i) one.shaper.offer(one.link, numbered(i), 3000 * kSecondNs);
  uint32_t next = 0;
  for (const Arrival& arrival : run(one.shaper)) EXPECT_EQ(arrival.number, next++);
  EXPECT_EQ(next, 1000u);
}

std::vector<Arrival> lossy_run(uint64_t seed, double loss, LinkCounters* counters) {
  Shaper shaper(seed);
  const int link = shaper.add_link({});
  shaper.set_line(link, {.delay_ns = 100, .jitter_ns = 50, .loss = loss}, 0);
  std::vector<Arrival> arrivals;
  for (uint32_t i = 0; i < 100'000; ++i) {
    shaper.offer(link, numbered(i, 64), i * 1000);
    for (const Arrival& arrival : run(shaper)) arrivals.push_back(arrival);
  }
  *counters = shaper.counters(link);
  return arrivals;
}

TEST(LinkemuShaper, LossHasItsChanceAndFollowsTheSeed) {
  LinkCounters first, again, other;
  const auto arrivals = lossy_run(3, 0.01, &first);
  EXPECT_EQ(arrivals, lossy_run(3, 0.01, &again));
  EXPECT_NE(arrivals, lossy_run(4, 0.01, &other));
  for (const LinkCounters& counters : {first, other}) {
    EXPECT_EQ(counters.taken.frames, 100'000u);
    EXPECT_EQ(counters.taken.frames, counters.delivered.frames + counters.lost.frames);
    EXPECT_NEAR(static_cast<double>(counters.lost.frames), 1000, 5 * std::sqrt(990.0));
  }
  LinkCounters all;
  EXPECT_TRUE(lossy_run(3, 1, &all).empty());
  EXPECT_EQ(all.lost.frames, 100'000u);
}

TEST(LinkemuShaper, LinksLoseIndependently) {
  Shaper shaper(9);
  const int a = shaper.add_link({}), b = shaper.add_link({});
  for (const int link : {a, b}) shaper.set_line(link, {.loss = 0.5}, 0);
  int both = 0;
  for (uint32_t i = 0; i < 10'000; ++i) {
    shaper.offer(a, numbered(i), i);
    shaper.offer(b, numbered(i), i);
    both += shaper.poll(i).size() == 2 ? 1 : 0;
  }
  EXPECT_NEAR(both, 2500, 5 * std::sqrt(10'000 * 0.25 * 0.75));
}

TEST(LinkemuShaper, ALostFrameHasUsedTheRate) {
  One one;
  one.shaper.set_queue(one.queue, {.rate_bits_per_s = kRate}, 0);
  one.shaper.set_line(one.link, {.loss = 1}, 0);
  one.shaper.offer(one.link, numbered(0), 0);
  one.shaper.offer(one.link, numbered(1), 0);
  EXPECT_TRUE(one.shaper.poll(kMillisecondNs).empty());
  one.shaper.set_line(one.link, {}, kMillisecondNs);
  EXPECT_EQ(run(one.shaper), (std::vector<Arrival>{{one.link, 1, 2 * kMillisecondNs}}));
}

}  // namespace
}  // namespace linkemu
