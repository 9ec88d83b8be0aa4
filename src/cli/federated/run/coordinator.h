// SPDX-License-Identifier: Apache-2.0
// `isthmus federated run --listen`: leads members through rounds. Holds the table of clients (grouping.h), a door for members (door.h), and
// for each cluster an aggregator. One thread, one loop. A round ends by its deadline, whoever is gone: what has come until then counts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "cli/aggregate/premises.h"
#include "cli/federated/run/chronicle.h"
#include "cli/federated/run/door.h"
#include "cli/federated/run/grouping.h"
#include "federated/aggregator.h"

namespace isthmus::cli {

class Coordinator {
 public:
  /// Everything outlives it. invalid_argument: rules that do not fit each other; else what listening fails with.
  static Result<std::unique_ptr<Coordinator>> open(const Premises& premises, const RunRules& rules, const Masking* masking,
                                                   Chronicle& chronicle, const Fd& signals);

  /// To the last round, a signal, or until too few members are left for too long. Returns the exit code.
  int run();

 private:
  using Aggregators = std::vector<std::unique_ptr<federated::Aggregator>>;  ///< by cluster
  /// A cluster's sum in this round.
  struct Sum {
    ClusterRecord record;
    federated::Aggregator* by = nullptr;  ///< null: there is none
    std::optional<federated::RoundReport> report;
  };

  Coordinator(const Premises& premises, const RunRules& rules, Chronicle& chronicle, const Fd& signals)
      : premises_(premises), rules_(rules), chronicle_(chronicle), signals_(signals), grouping_(rules), held_(rules.members) {}
  Status listen(const Masking* masking);
  Result<Aggregators> open_sums(const federated::GroupRules& group, const Masking* masking, uint32_t first_port) const;
  [[nodiscard]] RunTerms terms() const;

  Status lead();
  Status wait_for_members(uint32_t round);
  Status lead_round(uint32_t round);
  void call(uint32_t round);
  void convene(uint32_t round);
  [[nodiscard]] std::string choose_sum(ClusterRecord& record, const federated::RankSet& owners) const;
  void send_plans(uint32_t round);
  [[nodiscard]] bool all_over() const;
  void close(uint32_t round);
  void take_sum(Sum& sum);
  void tell(const federated::DriftReport& drift, TimeNs began_at);

  /// Serves everybody until `done`, `by`, or a signal, which stops the run.
  Status pump(const std::function<bool()>& done, TimeNs by);
  void on_event(const Door::Event& event, TimeNs now);
  void on_join(const Door::Event& event, TimeNs now);
  void on_reports(const Door::Event& event, TimeNs now);
  void on_result(const Door::Event& event, TimeNs now);
  void turn_away(uint32_t member, const std::string& why, TimeNs now);
  void collect(Aggregators& aggregators, TimeNs now);
  [[nodiscard]] uint64_t stale_contributions() const;
  void say_goodbye(const std::string& why);

  const Premises& premises_;
  RunRules rules_;
  Chronicle& chronicle_;
  const Fd& signals_;
  Grouping grouping_;
  std::unique_ptr<Door> door_;
  Aggregators masked_, plain_;
  std::optional<uint64_t> images_;  ///< hash of what the first member holds
  federated::RankSet ready_;        ///< members that have what they need for a round
  federated::RankSet knows_probe_;
  std::vector<std::vector<RunReports::Held>> held_;  ///< by member: its models
  // Of the round under way:
  uint32_t round_ = 0;
  bool calling_ = false;  ///< reports are awaited
  federated::RankSet in_round_, reported_, done_;
  std::vector<Sum> sums_;  ///< by cluster
  std::vector<RunResult> results_;
  uint64_t stale_ = 0, stale_before_ = 0;
  int signal_ = 0;
};

}  // namespace isthmus::cli
