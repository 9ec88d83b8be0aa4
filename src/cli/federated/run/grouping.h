// SPDX-License-Identifier: Apache-2.0
// What the coordinator knows: which cluster each client is in, and each cluster's model. Decides; sends and waits for nothing. Errors are
// reports that cannot be compared, and clusterings that cannot be made.
#pragma once

#include <optional>
#include <vector>

#include "cli/federated/run/messages.h"
#include "cli/federated/run/rules.h"
#include "federated/cohort_state.h"
#include "federated/rank_set.h"

namespace isthmus::cli {

class Grouping {
 public:
  explicit Grouping(const RunRules& rules);

  /// The round begins.
  void open(uint32_t round);
  /// Clients look at their data in this round; before, all are in one cluster.
  [[nodiscard]] bool looks(uint32_t round) const { return round > rules_.warm_up; }
  /// The model whose gradients are compared, once there is one; empty where none is needed.
  [[nodiscard]] const Model& probe() const { return probe_; }
  [[nodiscard]] federated::Points centres() const { return state_ ? state_->centres() : federated::Points{}; }

  /// Of one member, of clients of its own.
  Status take(uint32_t member, const RunReports& reports);
  /// Moves clients or clusters them anew, and mixes models where need be.
  Result<federated::DriftReport> update(uint32_t round);

  [[nodiscard]] uint32_t k() const { return static_cast<uint32_t>(models_.size()); }
  [[nodiscard]] uint64_t epoch() const { return state_ ? state_->epoch() : 0; }
  [[nodiscard]] std::vector<uint32_t> clusters_of(uint32_t member) const;
  /// Who has clients in it.
  [[nodiscard]] federated::RankSet members_of(uint32_t cluster) const;
  [[nodiscard]] const Model& model(uint32_t cluster) const { return models_[cluster]; }
  void add(uint32_t cluster, std::span<const float> mean) { add_update(models_[cluster], mean); }

 private:
  void begin();
  void mix();

  RunRules rules_;
  std::vector<Model> models_;
  Model probe_;
  std::optional<federated::CohortState> state_;
  bool grouped_ = false;
};

}  // namespace isthmus::cli
