// SPDX-License-Identifier: Apache-2.0
// Surveys. See survey.h.
#include "comm/survey.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::comm {
namespace {

constexpr uint64_t kMostText = 64 << 20;

uint64_t largest_message(const topology::SurveyPlan& plan) {
  uint64_t most = topology::Experiment::kAnswerBytes;
  for (const topology::Experiment& one : plan.experiments()) {
    for (const topology::Round& round : one.rounds) most = std::max(most, round.bytes);
  }
  return most;
}

bool no_site_is_named(const Membership& membership) {
  return std::all_of(membership.cards.begin(), membership.cards.end(),
                     [](const exec::ProcessCard& card) { return card.region.empty() && card.site.empty() && card.zone.empty(); });
}

}  // namespace

bool wants_survey(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  if (membership.reach != plan::Reach::network) return false;
  const auto probes = [](const exec::ProcessCard& card) { return card.probes; };
  const bool any = std::any_of(membership.cards.begin(), membership.cards.end(), probes);
  if (!any) return false;
  const auto without = std::find_if_not(membership.cards.begin(), membership.cards.end(), probes);
  if (without == membership.cards.end()) return true;
  communicator.process().log().warn(
      "communicator {:#x}: ISTHMUS_PROBE is set on some ranks, but not on rank {}, or another setting forbids measuring there: nothing is "
      "measured",
      membership.id, without - membership.cards.begin());
  return false;
}

Survey::Survey(Communicator& communicator, const Premises& premises, TimeNs now)
    : communicator_(communicator),
      premises_(premises),
      began_ns_(now),
      plan_(layout_of(communicator.membership()), no_site_is_named(communicator.membership())) {
  begin_phase();
}

void Survey::poll(TimeNs now) {
  while (!over() && step(now)) {
  }
}

// True: look again.
bool Survey::step(TimeNs now) {
  status_ = communicator_.state();
  if (under_way_) {
    if (!launch_.done()) return false;
    under_way_ = false;
    if (status_.ok()) status_ = launch_.status();
  }
  if (!status_.ok()) {
    stage_ = Stage::over;
    return false;
  }
  // Nobody shall wait for a call that this rank could not begin.
  if (const Status refused = go_on(now); !refused.ok()) communicator_.fail(refused);
  return true;
}

// Nothing is under way.
Status Survey::go_on(TimeNs now) {
  switch (stage_) {
    case Stage::experiments:
      return next_experiment(now);
    case Stage::agreement:
      if (plan_.looks_for_sites()) began_ns_ = now;
      plan_.accept(agreed_);
      drift_percent_ = static_cast<uint32_t>(agreed_[topology::SurveyPlan::kDriftPercent]);
      if (plan_.experiments().empty()) return begin_plan();
      begin_phase();
      return {};
    case Stage::length:
      if (length_ == 0 || length_ > kMostText) {
        give_up(internal_error("rank 0 has made no plan"));
        return {};
      }
      stage_ = Stage::text;
      text_.resize(length_);
      return submit(Request{.collective = Collective::broadcast,
                            .in = text_.data(),
                            .out = text_.data(),
                            .count = length_,
                            .type = DataType::uint8,
                            .root = 0});
    case Stage::text:
      take_plan();
      return {};
    case Stage::over:
      break;
  }
  return {};
}

void Survey::begin_phase() {
  stage_ = Stage::experiments;
  at_ = round_ = 0;
  times_.clear();
  results_.assign(plan_.result_count(), 0);
  agreed_.assign(plan_.result_count(), 0);
  const bool takes_part =
      std::any_of(plan_.experiments().begin(), plan_.experiments().end(), [this](const auto& one) { return mine(one); });
  if (!takes_part) return;
  // Written to now, so that no experiment pays for their first use.
  const uint64_t bytes = largest_message(plan_);
  source_.resize(std::max<uint64_t>(source_.size(), bytes));
  sink_.resize(source_.size());
}

// The present experiment's next round, or the next experiment of this rank, or the agreement.
Status Survey::next_experiment(TimeNs now) {
  while (at_ < plan_.experiments().size()) {
    if (mine(current())) {
      const bool measures = current().from == communicator_.rank();
      if (measures && times_.size() < round_) times_.push_back(now - round_began_ns_);
      // Whoever answers does so once more after the last round.
      if (round_ < current().rounds.size() + (measures ? 0 : 1)) return next_round(now);
      if (measures) {
        const auto report = current().report(times_);
        std::copy(
            report.begin(), report.end(),
            results_.begin() + static_cast<std::ptrdiff_t>(topology::SurveyPlan::kHeader + topology::SurveyPlan::kPerExperiment * at_));
      }
    }
    ++at_;
    round_ = 0;
    times_.clear();
  }
  return agree(now);
}

Status Survey::next_round(TimeNs now) {
  const topology::Experiment& experiment = current();
  const bool measures = experiment.from == communicator_.rank();
  const int32_t other = measures ? experiment.to : experiment.from;
  std::vector<Request> transfers;
  const auto add = [&](bool is_send, uint64_t bytes) {
    transfers.push_back({.collective = Collective::sendrecv,
                         .in = source_.data(),
                         .out = sink_.data(),
                         .count = bytes,
                         .type = DataType::uint8,
                         .root = other,
                         .is_send = is_send});
  };
  if (!measures && round_ > 0) add(true, topology::Experiment::kAnswerBytes);
  if (round_ < experiment.rounds.size()) {
    const topology::Round& round = experiment.rounds[round_];
    for (uint32_t i = 0; i < round.messages; ++i) add(measures, round.bytes);
  }
  if (measures) add(false, topology::Experiment::kAnswerBytes);
  ++round_;
  round_began_ns_ = now;
  return submit(transfers);
}

Status Survey::agree(TimeNs now) {
  using Plan = topology::SurveyPlan;
  stage_ = Stage::agreement;
  results_[Plan::kElapsedNs] = now - began_ns_;
  if (communicator_.rank() == 0) {
    results_[Plan::kBudgetNs] = premises_.budget_ns;
    results_[Plan::kWallClockS] = premises_.wall_clock_s;
    results_[Plan::kReduceBytesPerS] = static_cast<int64_t>(premises_.reduce_bytes_per_s);
    results_[Plan::kCopyBytesPerS] = static_cast<int64_t>(premises_.copy_bytes_per_s);
    results_[Plan::kDriftPercent] = premises_.drift_percent;
  }
  // Rules that want everything compressed do not mean this.
  ISTHMUS_ASSIGN(const codec::Named* none, communicator_.process().codecs().get("none", static_cast<uint32_t>(communicator_.ranks())));
  Request request{.collective = Collective::allreduce, .in = results_.data(), .out = agreed_.data(), .count = results_.size()};
  request.type = DataType::int64;
  request.op = {.op = ReduceOp::max};
  request.wish = std::make_shared<const CodecWish>(CodecWish{.codec = none, .residual = nullptr});
  return submit(request);
}

Status Survey::begin_plan() {
  stage_ = Stage::length;
  if (communicator_.rank() == 0) {
    const auto scene = topology::Scene::make(plan_.layout(), profile());
    const auto file = scene.ok() ? topology::make_plan_file(*scene, {}) : Result<topology::PlanFile>(scene.status());
    if (file.ok()) text_ = to_json(*file);
    if (!file.ok())
      communicator_.process().log().warn("communicator {:#x}: no plan: {}", communicator_.membership().id, file.status().text());
    length_ = text_.size();
  }
  return submit(
      Request{.collective = Collective::broadcast, .in = &length_, .out = &length_, .count = 1, .type = DataType::uint64, .root = 0});
}

void Survey::take_plan() {
  std::vector<std::string> warnings;
  auto plan = topology::parse_plan_file(text_, warnings);
  if (!plan.ok()) return give_up(plan.status());
  outcome_ = Outcome{.profile = profile(), .plan = std::move(*plan), .sites = plan_.found_sites()};
  stage_ = Stage::over;
}

topology::Profile Survey::profile() const {
  topology::Profile profile = plan_.profile();
  profile.epoch = premises_.epoch;
  return profile;
}

void Survey::give_up(const Status& why) {
  stage_ = Stage::over;
  communicator_.process().log().warn(
      "communicator {:#x}: no plan comes of what was measured between its ranks, so the rules stay as they are: {}",
      communicator_.membership().id, why.text());
}

Status Survey::submit(std::span<const Request> transfers) {
  launch_.clear();
  ISTHMUS_TRY(communicator_.add_transfers(transfers, launch_));
  launch_.put_on_stream();  // a rank in another experiment is not one that waits for ever
  launch_.submit(communicator_.process().engine());
  under_way_ = true;
  return {};
}

Status Survey::submit(Request request) {
  launch_.clear();
  ISTHMUS_TRY(communicator_.check(request));
  ISTHMUS_TRY(communicator_.add(request, launch_));
  launch_.put_on_stream();
  launch_.submit(communicator_.process().engine());
  under_way_ = true;
  return {};
}

}  // namespace isthmus::comm
