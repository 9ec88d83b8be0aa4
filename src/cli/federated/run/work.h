// SPDX-License-Identifier: Apache-2.0
// What a member of `isthmus federated run` does with its clients' data: looks for drift, trains, evaluates. Sends and waits for nothing.
// Fails on a plan that it cannot follow.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cli/federated/reporter.h"
#include "cli/federated/run/messages.h"
#include "cli/federated/run/rules.h"

namespace isthmus::cli {

class MemberWork {
 public:
  /// What its clients contribute to one cluster's sum.
  struct Update {
    uint32_t cluster = 0, clients = 0;
    SumKind sum = SumKind::none;
    std::vector<float> vector;  ///< mean over its clients of what their training changes
    double weight = 0;          ///< samples
  };

  MemberWork(const RunTerms& terms, uint32_t member, const Digits& digits);

  /// Takes in what has drifted up to this round, and says what is to be reported of it: also what no plan has confirmed yet.
  Result<RunReports> look(const RunCall& call);
  /// The plan of the round that look() was for: its reports have arrived. remote_error: it does not fit.
  Status follow(const RunPlan& plan);
  /// Trains each cluster's model on the data of those of its clients who are in it; `goes_on` as for cli::train.
  std::vector<Update> train(const RunPlan& plan, const std::function<bool()>& goes_on = {}) const;
  /// The cluster's mean update; the same model on all members.
  void add(const Update& update, std::span<const float> mean);
  /// There is none: until there is, this member's own model serves its clients.
  void stay_alone(const Update& update);

  /// Mean over its clients, each of its cluster's model on its task.
  [[nodiscard]] double accuracy() const;
  [[nodiscard]] uint64_t model_hash(uint32_t cluster) const { return hash_of(models_.at(cluster)); }

 private:
  void advance_to(uint32_t round);
  [[nodiscard]] const Model* model_of(uint32_t cluster) const;

  RunTerms terms_;
  uint32_t first_;  ///< of its clients
  Episode episode_;
  std::optional<Reporter> reporter_;
  uint32_t next_change_ = 0;  ///< round
  std::vector<const Samples*> data_;
  std::vector<uint32_t> task_of_, clusters_;
  std::set<uint32_t> changed_;      ///< own clients with data that were not looked at
  std::set<uint32_t> unconfirmed_;  ///< reported, but perhaps in vain
  uint32_t looked_in_ = 0;
  uint64_t epoch_ = 0;
  std::map<uint32_t, Model> models_;  ///< by cluster
  std::map<uint32_t, Model> alone_;   ///< what it has trained by itself since the cluster's last sum
};

}  // namespace isthmus::cli
