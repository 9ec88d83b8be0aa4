// SPDX-License-Identifier: Apache-2.0
// What the coordinator of `isthmus federated run` was told, and what both sides make of models. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/types.h"
#include "cli/federated/episode.h"
#include "federated/clustering.h"
#include "federated/group_rules.h"

namespace isthmus::cli {

struct RunRules {
  uint32_t members = 0, clients_each = 15;
  EpisodeRules episode;  ///< of members * clients_each clients
  ModelKind model = ModelKind::softmax;
  TrainRules train;
  uint64_t seed = 0;
  federated::KRule k_rule = federated::KRule::split;
  uint32_t k = 0, k_max = 8;
  double tau = 1.0 / 3;
  uint32_t warm_up = 0;  ///< rounds of one cluster, which make the probe of gradients
  std::string codec = "thc";
  double quorum = 0.5;  ///< share of a cluster's members that makes a mean
  TimeNs deadline_ns = 10 * kSecondNs, wait_ns = 60 * kSecondNs;
  bool masked = false;
  bool plain_small = false;  ///< clusters too small to mask are summed all the same
  uint32_t min_cohort = 3, neighbours = 0;
  float clip = 0;

  [[nodiscard]] uint32_t most_clusters() const { return k > 0 ? k : k_max; }
  [[nodiscard]] federated::GroupRules plain_group() const {
    return {.largest_weight = static_cast<double>(clients_each) * episode.samples};
  }
  [[nodiscard]] federated::GroupRules masked_group() const {
    federated::GroupRules rules = plain_group();
    rules.masked = true;
    rules.masks = {.min_cohort = min_cohort, .degree = neighbours};
    rules.clip = clip;
    return rules;
  }
};

inline uint64_t hash_of(const Model& model) { return hash_bytes(std::as_bytes(std::span(model))); }

/// model + the mean update: the same operations, so the same bits, wherever it is done.
inline void add_update(Model& model, std::span<const float> mean) {
  for (size_t i = 0; i < model.size(); ++i) model[i] += mean[i];
}

}  // namespace isthmus::cli
