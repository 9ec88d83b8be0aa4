// SPDX-License-Identifier: Apache-2.0
// episode.h.
#include "cli/federated/episode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "federated/draws.h"

namespace isthmus::cli {
namespace {

using federated::choose;
using federated::Stream;

constexpr std::array<std::string_view, 4> kScenarioNames = {"label", "rotation", "concept", "dirichlet"};
constexpr uint32_t kGroups = 4;
constexpr double kStray = 0.02;  // of samples in label groups that come from any digit
constexpr std::array<std::array<bool, kDigits>, 2 * kGroups> kLabelSets = {{
    {true, true, true},  // 0 1 2, 3 4 5, 6 7, 8 9
    {false, false, false, true, true, true},
    {false, false, false, false, false, false, true, true},
    {false, false, false, false, false, false, false, false, true, true},
    {true, false, false, true, false, false, true},  // 0 3 6, 1 4 8, 2 9, 5 7
    {false, true, false, false, true, false, false, false, true},
    {false, false, true, false, false, false, false, false, false, true},
    {false, false, false, false, false, true, false, true},
}};
constexpr std::array<std::array<uint32_t, kDigits>, kGroups> kCalled = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
    {1, 0, 3, 2, 5, 4, 6, 7, 8, 9},  // 0 with 1, 2 with 3, 4 with 5
    {0, 2, 1, 3, 4, 5, 7, 6, 9, 8},  // 6 with 7, 8 with 9, 1 with 2
    {5, 6, 7, 8, 9, 0, 1, 2, 3, 4},
}};

/// A gamma number (Marsaglia and Tsang 2000); shapes below 1 by a power of a uniform number.
double gamma_number(CounterRng& random, double shape) {
  if (shape < 1) return gamma_number(random, shape + 1) * std::pow(random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = federated::normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

class Maker {
 public:
  Maker(const EpisodeRules& rules, const Digits& digits, uint64_t seed)
      : digits_(digits), random_(federated::draws(seed, Stream::data, 1)) {
    episode_.rules = rules;
    episode_.changes.resize(rules.rounds + 1);
    episode_.has_groups = rules.scenario != Scenario::dirichlet;
    share_out();
  }

  Episode make() && {
    if (episode_.has_groups) {
      for (uint32_t group = 0; group < (rules().scenario == Scenario::label ? 2 * kGroups : kGroups); ++group) add_task(group_task(group));
    }
    task_of_.resize(rules().clients);
    for (uint32_t client = 0; client < rules().clients; ++client) change(0, client, episode_.has_groups ? client % kGroups : fresh_task());
    for (uint32_t round = rules().drift_every; round <= rules().rounds; round += rules().drift_every) {
      if (round == rules().rounds) break;  // nothing would be seen of it
      drift(round);
    }
    return std::move(episode_);
  }

 private:
  [[nodiscard]] const EpisodeRules& rules() const { return episode_.rules; }

  void share_out() {
    const auto size = static_cast<uint32_t>(digits_.size());
    const std::vector<uint32_t> order = choose(random_, size, size);
    for (uint32_t i = 0; i < size; ++i) {
      const uint32_t label = digits_.labels[order[i]];
      auto& pool = i < size * 2 / 3 ? for_clients_[label] : for_tests_[label];
      pool.push_back(order[i]);
    }
    for (uint32_t label = 0; label < kDigits; ++label) {  // by chance a rare digit may be on one side only
      if (for_clients_[label].empty()) for_clients_[label] = for_tests_[label];
      if (for_tests_[label].empty()) for_tests_[label] = for_clients_[label];
    }
  }

  [[nodiscard]] Task group_task(uint32_t group) const {
    Task task;
    std::iota(task.called.begin(), task.called.end(), 0U);
    task.shares.fill(1.0 / kDigits);
    if (rules().scenario == Scenario::rotation) task.quarter_turns = group;
    if (rules().scenario == Scenario::concept_swap) task.called = kCalled[group];
    if (rules().scenario == Scenario::label) {
      const auto& set = kLabelSets[group];
      const auto members = static_cast<double>(std::count(set.begin(), set.end(), true));
      for (uint32_t y = 0; y < kDigits; ++y) task.shares[y] = kStray / kDigits + (set[y] ? (1 - kStray) / members : 0);
    }
    return task;
  }

  /// Of one client alone.
  uint32_t fresh_task() {
    Task task;
    std::iota(task.called.begin(), task.called.end(), 0U);
    double sum = 0;
    for (double& share : task.shares) sum += share = gamma_number(random_, rules().alpha) + 1e-12;
    for (double& share : task.shares) share /= sum;
    return add_task(task);
  }

  uint32_t add_task(const Task& task) {
    episode_.tasks.push_back(task);
    episode_.tests.push_back(draw(task, for_tests_, rules().test_samples));
    return static_cast<uint32_t>(episode_.tasks.size() - 1);
  }

  Samples draw(const Task& task, const std::array<std::vector<uint32_t>, kDigits>& pools, uint32_t size) {
    Samples samples;
    for (uint32_t i = 0; i < size; ++i) {
      double left = random_.uniform();
      uint32_t y = 0;
      for (; y + 1 < kDigits && left >= task.shares[y]; ++y) left -= task.shares[y];
      const uint32_t image = pools[y][random_.below(pools[y].size())];
      for (uint32_t at = 0; at < kPixels; ++at) samples.images.push_back(pixel(image, at / kSide, at % kSide, task.quarter_turns));
      samples.labels.push_back(task.called[y]);
    }
    return samples;
  }

  [[nodiscard]] float pixel(uint32_t image, uint32_t y, uint32_t x, uint32_t turns) const {
    for (; turns > 0; --turns) {
      const uint32_t from_y = x;
      x = kSide - 1 - y;
      y = from_y;
    }
    return digits_.images[size_t{image} * kPixels + y * kSide + x];
  }

  void change(uint32_t round, uint32_t client, uint32_t task) {
    task_of_[client] = task;
    episode_.changes[round].push_back({.client = client, .task = task, .data = draw(episode_.tasks[task], for_clients_, rules().samples)});
  }

  void drift(uint32_t round) {
    const bool big = round == rules().big_drift, later = rules().big_drift > 0 && round >= rules().big_drift;
    const uint32_t first_task = rules().scenario == Scenario::label && later ? kGroups : 0;
    if (big && first_task > 0) {
      for (uint32_t client = 0; client < rules().clients; ++client)
        change(round, client, first_task + static_cast<uint32_t>(random_.below(kGroups)));
      return;
    }
    const auto many = static_cast<uint32_t>(std::lround((big ? rules().big_share : rules().drift_share) * rules().clients));
    std::vector<uint32_t> who = choose(random_, rules().clients, many);
    std::sort(who.begin(), who.end());
    for (const uint32_t client : who) {
      const auto step = static_cast<uint32_t>(1 + random_.below(kGroups - 1));
      change(round, client, episode_.has_groups ? first_task + (task_of_[client] + step) % kGroups : fresh_task());
    }
  }

  const Digits& digits_;
  CounterRng random_;
  Episode episode_;
  std::array<std::vector<uint32_t>, kDigits> for_clients_, for_tests_;
  std::vector<uint32_t> task_of_;
};

}  // namespace

Result<Scenario> parse_scenario(std::string_view name) {
  const auto found = std::find(kScenarioNames.begin(), kScenarioNames.end(), name);
  if (found != kScenarioNames.end()) return static_cast<Scenario>(found - kScenarioNames.begin());
  return invalid_argument(fmt::format("there is no scenario '{}'; there are: {}", name, join(kScenarioNames, ", ")));
}

std::string_view name_of(Scenario scenario) { return kScenarioNames[static_cast<size_t>(scenario)]; }

Episode make_episode(const EpisodeRules& rules, const Digits& digits, uint64_t seed) { return Maker(rules, digits, seed).make(); }

}  // namespace isthmus::cli
