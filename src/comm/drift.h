// SPDX-License-Identifier: Apache-2.0
// Has a communicator that was surveyed measured anew when its links change. Every rank holds its collectives' times against the plan's
// predictions and tells rank 0 when they stay off. Rank 0 then has all ranks agree on the number of a call before which they measure and
// take over the next plan (docs/decisions/0015): calls from that number on wait meanwhile, also those on streams. Measuring goes over a
// shadow, a communicator of the same ranks, so that nothing of the user's is in the way. Made by follow_survey(), owned by the
// communicator, polled with the process. Where measuring fails, the communicator fails; without a control plane nothing is ever agreed, and
// the plan stays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/survey.h"
#include "topology/planner/forecast.h"
#include "topology/planner/residuals.h"

namespace isthmus::comm {

class Drift final : private exec::Polled {
 public:
  /// `survey` is over and has an outcome, which the communicator follows. The communicator must outlive this.
  Drift(const Context& context, Communicator& communicator, const Survey& survey, TimeNs now);
  ~Drift() override;
  Drift(const Drift&) = delete;
  Drift& operator=(const Drift&) = delete;

  /// Whether the next collective may begin. If not, it is to be asked again after a poll.
  [[nodiscard]] bool admits() { return stage_ == Stage::watching || admits_now(); }
  /// A collective has ended that was done as the plan says.
  void add(Collective collective, uint64_t bytes, const collectives::Choice& choice, TimeNs took_ns);
  /// What another rank's Drift says.
  void on_message(int32_t from, std::span<const std::byte> body);
  /// The communicator has failed.
  void on_failed(const Status& why);

 private:
  /// proposed: calls wait from a number that is this rank's own. agreed: from the one that is everybody's.
  enum class Stage : uint8_t { watching, proposed, agreed, measuring };
  enum class Word : uint8_t { verdict = 1, propose = 2, place = 3, agree = 4, call_off = 5, leave = 6 };

  bool poll(TimeNs now) override;
  bool admits_now();
  [[nodiscard]] bool leads() const { return communicator_.rank() == 0; }
  void say(int32_t to, Word word, uint32_t round, uint32_t value, const std::string& text = {});
  void say_to_all(Word word, uint32_t round, uint32_t value, const std::string& text = {});
  void hear(int32_t from, Word word, uint32_t round, uint32_t value, const std::string& text);
  void on_proposed(uint32_t round);
  void on_agreed(uint32_t number, const std::string& why);
  // rank 0
  void propose();
  void take_place(int32_t from, uint32_t number);

  void make_forecast();
  bool go_on(TimeNs now);
  void begin_survey(TimeNs now);
  void end_survey(TimeNs now);
  void take_over(const Survey::Outcome& outcome, TimeNs now);
  void resume();

  Context context_;
  Communicator& communicator_;
  Survey::Premises premises_;
  TimeNs premises_at_ns_;                         ///< when their wall clock was read
  Survey::Outcome basis_;                         ///< that the communicator follows
  std::unique_ptr<topology::Forecast> forecast_;  ///< null: nothing can be predicted
  topology::Residuals residuals_;
  topology::Verdict told_ = topology::Verdict::steady;  ///< to rank 0

  Stage stage_ = Stage::watching;
  uint32_t round_ = 0;        ///< of agreeing
  uint32_t hold_from_ = 0;    ///< unless watching: calls from this number on wait
  uint32_t next_round_ = 0;   ///< was proposed before this one was over here; 0: none
  bool holds_ = false;        ///< one does
  TimeNs held_since_ns_ = 0;  ///< 0: not known yet
  std::string why_;
  std::unique_ptr<Survey> survey_;  // before the shadow, which refers to it
  std::unique_ptr<Communicator> shadow_;

  // At rank 0.
  std::vector<topology::Verdict> verdicts_;      ///< by rank
  std::vector<std::optional<uint32_t>> places_;  ///< by rank: the number of its next call when it heard of the round
  bool left_ = false;                            ///< some rank has made its last call
  TimeNs not_before_ns_ = 0, interval_ns_;
};

/// Has the communicator follow what came of its survey, which is over, and watches it from now on if the settings say so.
void follow_survey(const Context& context, Communicator& communicator, const Survey& survey, TimeNs now);

}  // namespace isthmus::comm
