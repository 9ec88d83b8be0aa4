// SPDX-License-Identifier: Apache-2.0
// What happens to simulated clients: which task each has, what data it draws, when that drifts. Made once for a seed, so that all methods
// live through the same. Deterministic; errors are sizes that cannot be.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/federated/learner.h"

namespace isthmus::cli {

enum class Scenario : uint8_t {
  label,         ///< groups see different digits; the big drift makes new groups
  rotation,      ///< groups see digits turned by quarters
  concept_swap,  ///< groups call digits differently
  dirichlet,     ///< every client has its own shares of digits; there are no groups
};
Result<Scenario> parse_scenario(std::string_view name);
std::string_view name_of(Scenario scenario);

struct EpisodeRules {
  Scenario scenario = Scenario::label;
  uint32_t clients = 60, samples = 40, rounds = 100;
  uint32_t drift_every = 10;    ///< rounds
  double drift_share = 0.15;    ///< of clients that change their task then
  uint32_t big_drift = 50;      ///< the round of the big one; 0: none
  double big_share = 0.6;       ///< of clients that change, where groups stay
  uint32_t test_samples = 300;  ///< for each task
  double alpha = 0.3;           ///< of the Dirichlet distribution
};

struct Task {
  std::array<double, kDigits> shares{};    ///< of digits
  uint32_t quarter_turns = 0;              ///< of the image, anti-clockwise
  std::array<uint32_t, kDigits> called{};  ///< what each digit is called
};

/// One client's new task and data.
struct Change {
  uint32_t client = 0, task = 0;
  Samples data;
};

struct Episode {
  EpisodeRules rules;
  std::vector<Task> tasks;
  std::vector<Samples> tests;                ///< by task
  std::vector<std::vector<Change>> changes;  ///< by round, before training; round 0 has every client's first
  bool has_groups = true;                    ///< tasks are shared by clients
  uint32_t groups = 4;                       ///< at a time
};

/// Two thirds of the images are for clients, the others for tests.
Episode make_episode(const EpisodeRules& rules, const Digits& digits, uint64_t seed);

}  // namespace isthmus::cli
