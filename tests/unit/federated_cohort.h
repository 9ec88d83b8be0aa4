// SPDX-License-Identifier: Apache-2.0
// A job (federated_job.h) whose members make a cohort's sums. For the tests of group sums.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "federated/group_rules.h"
#include "federated_job.h"

namespace isthmus::federated {

inline constexpr size_t kCount = 2 * kSmallChunk + 1000;
inline constexpr float kClip = 2;

inline GroupRules plain_rules(double largest = 1) { return {.largest_weight = largest}; }
inline GroupRules masked_rules(uint32_t min_cohort = 2, double largest = 1) {
  return {.largest_weight = largest, .masked = true, .masks = {.min_cohort = min_cohort}, .clip = kClip};
}

/// A job of a cohort. Members' vectors are within the clip, so that the scales of plain rounds can be the same as those of masked ones.
struct Cohort : Job {
  explicit Cohort(const JobOptions& chosen) : Job(chosen) {}

  void contribute(uint32_t rank, uint64_t weight, uint64_t draw = 0, size_t count = kCount) {
    Rank& one = ranks.at(rank);
    one.in = input(rank, count, draw);
    one.out.assign(one.in.size(), std::byte{0xee});
    one.signature = {.count = count, .type = DataType::float32, .op = ReduceOp::sum};
    one.status = one.machine->begin({.in = one.in.data(), .out = one.out.data(), .signature = one.signature, .weight = weight}, now);
    one.calling = one.status.ok();
  }
  void contribute_all(uint64_t weight = 3, uint64_t draw = 0) {
    for (auto& [rank, one] : ranks) contribute(rank, weight, draw);
  }
  void kill(uint32_t rank) { ranks.erase(rank); }
  /// Masked words are on their way, so that everybody's masks are in them.
  [[nodiscard]] bool words_have_begun() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const auto& each) { return each.second.machine->uploads(); });
  }
  /// Everybody but `killed` has the same result.
  void expect_same(const std::vector<uint32_t>& survivors, const std::set<uint32_t>& counted, const char* why = "") {
    SCOPED_TRACE(why);
    const Rank& first = ranks.at(survivors.front());
    for (const uint32_t rank : survivors) {
      const Rank& one = ranks.at(rank);
      ASSERT_TRUE(one.status.ok()) << one.status.text();
      EXPECT_EQ(one.out, first.out) << rank;
      EXPECT_EQ(one.result.weight_sum, first.result.weight_sum);
      EXPECT_EQ(numbers(one.result.contributors), std::vector<uint32_t>(counted.begin(), counted.end()));
    }
  }
};

inline JobOptions of(uint32_t ranks, const GroupRules& group, uint32_t quorum = 1) {
  return {.ranks = ranks, .quorum = quorum, .group = group};
}

}  // namespace isthmus::federated
