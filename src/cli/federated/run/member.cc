// SPDX-License-Identifier: Apache-2.0
// member.h: rounds, as the coordinator leads them.
#include "cli/federated/run/member.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/ending.h"
#include "federated/aggregate_messages.h"
#include "federated/waiting.h"

namespace isthmus::cli {
namespace {

class Member {
 public:
  Member(const MemberWords& words, const Premises& premises, const Digits& digits, const Masking* masking, TimeNs reach_ns,
         const Fd& signals)
      : words_(words),
        premises_(premises),
        digits_(digits),
        masking_(masking),
        signals_(signals),
        chronicle_(words.meeting.json),
        link_(premises, words.member, reach_ns, signals) {}

  int run() {
    for (;;) {
      const Status lost = serve();
      if (sums_) sums_->leave();
      const int signal = stopped_ != 0 ? stopped_ : link_.signal() != 0 ? link_.signal() : sums_ ? sums_->signal() : 0;
      if (signal != 0) {
        link_.leave();
        return 128 + signal;
      }
      if (ended_) return lost.ok() ? 0 : complain(lost, "federated run");
      if (!joined_) return complain(lost, "federated run");
      Chronicle::news(fmt::format("member {} lost the coordinator, and looks for it again: {}", words_.member, lost.text()));
    }
  }

 private:
  /// Until the run has ended, or why it goes no further.
  Status serve() {
    joined_ = false;
    ISTHMUS_ASSIGN(const RunTerms terms, link_.join(images_hash()));
    joined_ = true;
    work_.emplace(terms, words_.member, digits_);
    sums_.emplace(premises_, terms, words_.member, masking_);
    link_.say(RunType::ready, std::make_shared<const std::vector<std::byte>>());
    if (!std::exchange(introduced_, true)) chronicle_.member_begin(words_.member, terms, digits_.source);
    while (!ended_) {
      ISTHMUS_ASSIGN(const std::vector<MemberLink::Said> said, link_.hear());
      // Of rounds that went on without this member only the last matters.
      const auto last_call = std::find_if(said.rbegin(), said.rend(), [](const auto& one) { return one.type == RunType::call; });
      const size_t first = last_call == said.rend() ? 0 : said.size() - 1 - static_cast<size_t>(last_call - said.rbegin());
      for (size_t i = 0; i < said.size(); ++i) {
        const bool over = i < first && (said[i].type == RunType::call || said[i].type == RunType::plan);
        if (!over) ISTHMUS_TRY(on_message(said[i]));
      }
      if (sums_->signal() != 0) return remote_error("it was stopped");
    }
    return why_;
  }

  [[nodiscard]] uint64_t images_hash() const {
    return hash_bytes(std::as_bytes(std::span(digits_.labels)), hash_bytes(std::as_bytes(std::span(digits_.images))));
  }

  Status on_message(const MemberLink::Said& said) {
    switch (said.type) {
      case RunType::call: {
        ISTHMUS_ASSIGN(const RunCall call, decode_run_call(said.body));
        return on_call(call);
      }
      case RunType::plan: {
        ISTHMUS_ASSIGN(const RunPlan plan, decode_run_plan(said.body));
        return on_plan(plan);
      }
      case RunType::end: {
        ISTHMUS_ASSIGN(const RunEnd end, decode_run_end(said.body));
        ended_ = true;
        if (!end.why.empty()) why_ = remote_error(end.why);
        link_.leave();
        return {};
      }
      case RunType::refusal:
        ended_ = true;
        return federated::decode_refusal(said.body);
      default:
        return remote_error("the coordinator sends a message that is not for now");
    }
  }

  Status on_call(const RunCall& call) {
    (void)link_.take_bytes();
    ISTHMUS_ASSIGN(const RunReports reports, work_->look(call));
    record_ = {.round = call.round, .reported = static_cast<uint32_t>(reports.reports.size()), .parts = {}};
    began_at_ = federated::clock_now();
    link_.say(RunType::reports, encode(reports));
    return {};
  }

  Status on_plan(const RunPlan& plan) {
    ISTHMUS_TRY(work_->follow(plan));
    const auto goes_on = [this] {
      if (stopped_ == 0) stopped_ = pending_signal(signals_);
      return stopped_ == 0;
    };
    const std::vector<MemberWork::Update> updates = work_->train(plan, goes_on);
    if (!goes_on()) return remote_error("it was stopped");
    std::vector<MemberSums::Made> made = sums_->make(plan.round, updates, signals_);
    RunResult result{.round = plan.round, .parts = {}};
    record_.epoch = plan.epoch;
    for (size_t i = 0; i < updates.size(); ++i) {
      const MemberWork::Update& update = updates[i];
      const bool ok = made[i].status.ok();
      ok ? work_->add(update, made[i].mean) : work_->stay_alone(update);
      const uint64_t model = ok ? work_->model_hash(update.cluster) : 0;
      result.parts.push_back({.cluster = update.cluster, .counted = made[i].counted, .model = model});
      const std::string failure = update.sum == SumKind::none ? "" : made[i].status.text();
      record_.parts.push_back({.cluster = update.cluster,
                               .clients = update.clients,
                               .sum = update.sum,
                               .counted = made[i].counted,
                               .model = model,
                               .failure = failure});
    }
    result.accuracy = record_.accuracy = work_->accuracy();
    const auto control = link_.take_bytes(), sums = sums_->take_bytes();
    result.sent_bytes = record_.sent_bytes = control.first + sums.first;
    result.received_bytes = record_.received_bytes = control.second + sums.second;
    link_.say(RunType::result, encode(result));
    record_.seconds = static_cast<double>(federated::clock_now() - began_at_) / kSecondNs;
    chronicle_.member_round(words_.member, record_);
    return {};
  }

  const MemberWords& words_;
  const Premises& premises_;
  const Digits& digits_;
  const Masking* masking_;
  const Fd& signals_;
  Chronicle chronicle_;
  MemberLink link_;
  std::optional<MemberWork> work_;
  std::optional<MemberSums> sums_;
  MemberRecord record_;
  TimeNs began_at_ = 0;
  int stopped_ = 0;  ///< by this signal, in training
  bool joined_ = false, introduced_ = false, ended_ = false;
  Status why_;
};

}  // namespace

int take_part(const MemberWords& words) {
  const auto reach_ns = duration_of("--reach", words.reach);
  if (!reach_ns.ok()) return complain(reach_ns.status(), words.meeting.command);
  const auto digits = find_digits(words.data);
  if (!digits.ok()) return complain(digits.status(), words.meeting.command);
  const auto premises = prepare(words.meeting);
  if (!premises.ok()) return complain(premises.status(), words.meeting.command);
  const auto masking = Masking::load();
  if (!masking.ok()) return complain(masking.status(), words.meeting.command);
  const Fd signals = ending_signals();
  return Member(words, **premises, *digits, *masking, *reach_ns, signals).run();
}

}  // namespace isthmus::cli
