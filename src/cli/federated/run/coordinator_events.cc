// SPDX-License-Identifier: Apache-2.0
// coordinator.h: the loop, and what members say.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/ending.h"
#include "cli/federated/run/coordinator.h"
#include "federated/waiting.h"

namespace isthmus::cli {

Status Coordinator::pump(const std::function<bool()>& done, TimeNs by) {
  std::vector<transport::Wait> waits;
  for (;;) {
    const TimeNs now = federated::clock_now();
    for (const Door::Event& event : door_->poll(now)) on_event(event, now);
    collect(masked_, now);
    collect(plain_, now);
    if (const int signal = pending_signal(signals_); signal != 0) {
      if (signal_ != 0) return remote_error("the coordinator was asked to end twice");
      signal_ = signal;
      return remote_error(fmt::format("the coordinator was stopped: {}", strsignal(signal)));
    }
    if (done() || now >= by) return {};
    TimeNs due = std::min(by, door_->due());
    waits.assign(1, {.fd = signals_.get()});
    door_->waits(waits);
    for (const Aggregators* aggregators : {&masked_, &plain_}) {
      for (const auto& one : *aggregators) {
        one->waits(waits);
        due = std::min(due, one->due());
      }
    }
    federated::wait_until(waits, due);
  }
}

/// Lets sums go on, and keeps the outcomes of this round's.
void Coordinator::collect(Aggregators& aggregators, TimeNs now) {
  for (const auto& one : aggregators) {
    (void)one->poll(now);
    (void)one->take_late_arrivals();
    for (federated::RoundReport& report : one->take_reports()) {
      const auto sum = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& each) { return each.by == one.get(); });
      if (sum != sums_.end() && !sum->report && report.epoch == round_) sum->report = std::move(report);
    }
  }
}

void Coordinator::on_event(const Door::Event& event, TimeNs now) {
  switch (event.kind) {
    case Door::Event::Kind::joined:
      return on_join(event, now);
    case Door::Event::Kind::gone:
      in_round_.reset(event.member);
      ready_.reset(event.member);
      Chronicle::news(fmt::format("member {} is gone: {}", event.member, event.why));
      return;
    case Door::Event::Kind::said:
      if (event.type == RunType::ready) ready_.set(event.member);
      if (event.type == RunType::reports) on_reports(event, now);
      if (event.type == RunType::result) on_result(event, now);
  }
}

void Coordinator::on_join(const Door::Event& event, TimeNs now) {
  const auto join = decode_run_join(event.body);
  std::string misfit;
  if (!join.ok()) {
    misfit = join.status().text();
  } else if (join->version != kRunVersion) {
    misfit = fmt::format("it speaks version {} of the protocol, and the coordinator version {}", join->version, kRunVersion);
  } else if (join->images != images_.value_or(join->images)) {
    misfit = "its images are others than the first member's: all must read the same --data";
  }
  if (!misfit.empty()) return turn_away(event.member, misfit, now);
  images_ = join->images;
  in_round_.reset(event.member);
  ready_.reset(event.member);
  knows_probe_.reset(event.member);
  held_[event.member].clear();
  Chronicle::news(fmt::format("member {} has come{}", event.member, round_ > 0 ? fmt::format(", for the round after {}", round_) : ""));
  door_->say(event.member, RunType::terms, encode(terms()));
}

void Coordinator::turn_away(uint32_t member, const std::string& why, TimeNs now) {
  in_round_.reset(member);
  ready_.reset(member);
  Chronicle::news(fmt::format("member {} is turned away: {}", member, why));
  door_->turn_away(member, fmt::format("member {}: {}", member, why), now);
}

void Coordinator::on_reports(const Door::Event& event, TimeNs now) {
  auto reports = decode_run_reports(event.body);
  Status status = reports.status();
  if (reports.ok()) {
    if (reports->round != round_ || !calling_ || !in_round_[event.member] || reported_[event.member]) {
      ++stale_;
      return;
    }
    status = grouping_.take(event.member, *reports);
  }
  if (!status.ok()) return turn_away(event.member, status.text(), now);
  held_[event.member] = std::move(reports->held);
  reported_.set(event.member);
}

void Coordinator::on_result(const Door::Event& event, TimeNs now) {
  auto result = decode_run_result(event.body);
  if (!result.ok()) return turn_away(event.member, result.status().text(), now);
  if (result->round != round_ || calling_ || !in_round_[event.member] || done_[event.member]) {
    ++stale_;
    return;
  }
  done_.set(event.member);
  results_.push_back(std::move(*result));
}

uint64_t Coordinator::stale_contributions() const {
  uint64_t stale = 0;
  for (const Aggregators* aggregators : {&masked_, &plain_})
    for (const auto& one : *aggregators) stale += one->counters().stale;
  return stale;
}

}  // namespace isthmus::cli
