// SPDX-License-Identifier: Apache-2.0
// Made-up clients whose labels come from planted groups, for the tests of cohorts: the sets of the scenarios, 40 samples each, two in a
// hundred from anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "federated/cohort_state.h"
#include "federated/draws.h"

namespace isthmus::federated {

inline constexpr uint32_t kLabels = 10, kSamples = 40;
using LabelSets = std::vector<std::vector<uint32_t>>;

inline LabelSets sets_before() { return {{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}}; }
inline LabelSets sets_after() { return {{0, 3, 6}, {1, 4, 8}, {2, 9}, {5, 7}}; }

inline std::vector<float> histogram_of(const std::vector<uint32_t>& labels, CounterRng& random, uint32_t samples = kSamples) {
  std::vector<uint64_t> counts(kLabels);
  for (uint32_t i = 0; i < samples; ++i) {
    ++counts[random.chance(0.02) ? random.below(kLabels) : labels[random.below(labels.size())]];
  }
  return label_histogram(counts).value();
}

/// Clients 0, 1, 2 .. in groups 0, 1, 2, 3, 0, 1 ..
struct Crowd {
  CounterRng random;
  std::vector<uint32_t> groups;
  std::vector<std::vector<float>> values;

  Crowd(uint64_t seed, uint32_t clients, const LabelSets& sets = sets_before()) : random(seed, 99), values(clients) {
    for (uint32_t i = 0; i < clients; ++i) groups.push_back(i % static_cast<uint32_t>(sets.size()));
    redraw(sets);
  }
  void redraw(const LabelSets& sets) {
    for (size_t i = 0; i < groups.size(); ++i) values[i] = histogram_of(sets[groups[i]], random);
  }
  /// So many change their group and draw anew.
  void switch_groups(uint32_t many, const LabelSets& sets) {
    for (const uint32_t i : choose(random, static_cast<uint32_t>(groups.size()), many)) {
      groups[i] = (groups[i] + 1 + static_cast<uint32_t>(random.below(sets.size() - 1))) % static_cast<uint32_t>(sets.size());
      values[i] = histogram_of(sets[groups[i]], random);
    }
  }
  [[nodiscard]] std::vector<float> flat() const {
    std::vector<float> all;
    for (const auto& one : values) all.insert(all.end(), one.begin(), one.end());
    return all;
  }
};

inline CohortConfig label_config(uint64_t seed, uint32_t k_fixed = 0) {
  CohortConfig config{.rep = {.kind = RepKind::label, .dims = kLabels}};
  config.clusters = {.metric = Metric::l1, .k_fixed = k_fixed, .seed = seed};
  return config;
}

inline void report_all(CohortState& cohort, const Crowd& crowd, uint64_t sequence) {
  for (size_t i = 0; i < crowd.values.size(); ++i) {
    const Status taken =
        cohort.report(cohort.config().rep, {.client = i, .sequence = sequence, .samples = kSamples, .values = crowd.values[i]});
    if (!taken.ok()) std::abort();
  }
}

}  // namespace isthmus::federated
