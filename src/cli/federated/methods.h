// SPDX-License-Identifier: Apache-2.0
// Ways to train models for clients whose data drift, each run through one episode round by round. Deterministic for an episode and a seed;
// errors are more clusters than clients.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/federated/episode.h"
#include "federated/cohort_state.h"

namespace isthmus::cli {

enum class Method : uint8_t {
  fedavg,            ///< one model for all
  ifca,              ///< K models go to each client, which trains the one with the least loss (Ghosh et al. 2020); K is told
  fixed_clusters,    ///< clusters of the first reports, for ever
  migrate_only,      ///< reporters move to the nearest centre; never clustered anew
  recluster_always,  ///< clustered anew whenever anybody reports
  isthmus,           ///< moves, and clusters anew when the trigger says so
  oracle,            ///< is told the groups
};
inline constexpr Method kMethods[] = {Method::fedavg,           Method::ifca,    Method::fixed_clusters, Method::migrate_only,
                                      Method::recluster_always, Method::isthmus, Method::oracle};
/// "fedavg", "ifca", "static", "migrate_only", "recluster_always", "isthmus", "oracle".
std::string_view name_of(Method method);

struct MethodRules {
  federated::KRule k_rule = federated::KRule::split;
  uint32_t k = 0;  ///< clusters; 0: found by the rule (IFCA and the oracle are told the number of groups)
  uint32_t k_max = 8;
  double tau = 1.0 / 3;
  double share = 0.5;  ///< of each cluster's clients that train in a round
  TrainRules train;
  uint32_t probe_rounds = 3;  ///< of federated averaging that make the gradient's probe
  uint64_t seed = 0;
};

/// One round, after training.
struct RoundRecord {
  double accuracy = 0;   ///< mean over clients of their model on their task
  double agreement = 0;  ///< adjusted Rand index of clusters and groups
  double rho = 0;
  uint32_t k = 1;
  bool reclustered = false;
  uint64_t reported = 0, migrated = 0;
  uint64_t bytes_down = 0, bytes_up = 0;  ///< models and representations, without framing
  std::vector<uint32_t> clusters;         ///< by client
};

using History = std::vector<RoundRecord>;

Result<History> run_method(Method method, const Episode& episode, const MethodRules& rules);

/// What a history comes to.
struct Summary {
  double mean_accuracy = 0, final_accuracy = 0, mean_agreement = 0;
  uint32_t global_reclusterings = 0;
  uint32_t rounds_to_target = 0;   ///< before the big drift: the first round that reaches it; the window's length if none does
  uint32_t rounds_to_recover = 0;  ///< counted from the big drift
  double final_k = 0;
  double bytes_down = 0, bytes_up = 0;  ///< per round
};
Summary summarise(const History& history, const EpisodeRules& rules, double target);

}  // namespace isthmus::cli
