// SPDX-License-Identifier: Apache-2.0
// Measures what lies between a communicator's ranks, and gives all of them a plan made from it. A state machine that is polled
// beside the process: it makes calls on the communicator as a user would, the same number on all ranks, and takes their time by the
// polls' clock. Rank 0 plans and sends the plan's text, so nobody plans by numbers of its own. Called under the driver's lock by api/, for
// new communicators, and by drift.h, for a shadow of one whose links have changed; and by the simulator. Fails only where the communicator
// does; where no plan comes of it, that is so on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/setup.h"
#include "topology/planner/survey.h"

namespace isthmus::comm {

/// Whether the communicator is to be surveyed: all ranks' processes want it, and its ranks are on several hosts. The same on all ranks.
bool wants_survey(const Communicator& communicator);

class Survey {
 public:
  /// What only this process can tell. Rank 0's counts.
  struct Premises {
    TimeNs budget_ns = 2 * kSecondNs;
    int64_t wall_clock_s = 0;                               ///< since 1970
    uint64_t reduce_bytes_per_s = 0, copy_bytes_per_s = 0;  ///< 0: not measured
    uint64_t epoch = 1;                                     ///< of the profile that comes of it; the same on all ranks
    uint32_t drift_percent = 0;                             ///< ISTHMUS_DRIFT; 0: links are not watched
  };
  struct Outcome {
    topology::Profile profile;
    topology::PlanFile plan;
    std::vector<int32_t> sites;  ///< by rank, as round trips tell; empty: others say where the ranks are
  };

  /// Must outlive the communicator unless it is over: calls under way refer to it.
  Survey(Communicator& communicator, const Premises& premises, TimeNs now);

  /// Goes on as far as it can without waiting.
  void poll(TimeNs now);
  [[nodiscard]] bool over() const { return stage_ == Stage::over; }
  /// Once it is over: why the communicator has failed, or ok.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Likewise: what to follow, the same on all ranks; nothing where no plan came of it.
  [[nodiscard]] const std::optional<Outcome>& outcome() const { return outcome_; }
  [[nodiscard]] const Premises& premises() const { return premises_; }
  /// Likewise: rank 0's, the same on all ranks.
  [[nodiscard]] uint32_t drift_percent() const { return drift_percent_; }

 private:
  enum class Stage : uint8_t { experiments, agreement, length, text, over };

  bool step(TimeNs now);
  Status go_on(TimeNs now);
  void begin_phase();
  Status next_experiment(TimeNs now);
  Status next_round(TimeNs now);
  Status agree(TimeNs now);
  Status begin_plan();
  void take_plan();
  void give_up(const Status& why);

  Status submit(std::span<const Request> transfers);
  Status submit(Request request);
  [[nodiscard]] topology::Profile profile() const;
  [[nodiscard]] const topology::Experiment& current() const { return plan_.experiments()[at_]; }
  [[nodiscard]] bool mine(const topology::Experiment& one) const {
    return one.from == communicator_.rank() || one.to == communicator_.rank();
  }

  Communicator& communicator_;
  Premises premises_;
  uint32_t drift_percent_ = 0;
  TimeNs began_ns_;  ///< or found the sites, which the budget is not for
  topology::SurveyPlan plan_;
  Stage stage_ = Stage::experiments;
  Status status_;
  exec::Launch launch_;
  bool under_way_ = false;
  size_t at_ = 0;     ///< of the phase's experiments
  size_t round_ = 0;  ///< of that experiment: the one under way or, at its receiving end, those answered
  TimeNs round_began_ns_ = 0;
  std::vector<TimeNs> times_;
  std::vector<int64_t> results_, agreed_;
  std::vector<std::byte> source_, sink_;  ///< of messages, whose contents do not matter
  uint64_t length_ = 0;                   ///< of the plan's text; 0: there is none
  std::string text_;
  std::optional<Outcome> outcome_;
};

}  // namespace isthmus::comm
