// SPDX-License-Identifier: Apache-2.0
// Watching, agreeing, measuring again. See drift.h; that all ranks change over at one call is argued in docs/decisions/0015.
#include "comm/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "base/text.h"

namespace isthmus::comm {
namespace {

using topology::Verdict;

/// So many calls may begin after a rank has said where it is, so that nobody waits while the others are asked.
constexpr uint32_t kAhead = 4;
/// Vain surveys double the time until the next, up to so many times.
constexpr TimeNs kMostDoublings = 64;
constexpr size_t kMostText = 256;

/// Numbers of calls wrap.
bool is_later(uint32_t one, uint32_t other) { return static_cast<int32_t>(one - other) > 0; }

topology::DriftLimits limits_of(uint32_t percent) {
  topology::DriftLimits limits;
  limits.tolerated = std::log1p(static_cast<double>(percent) / 100);
  limits.slack = limits.tolerated / 2;
  return limits;
}

}  // namespace

Drift::Drift(const Context& context, Communicator& communicator, const Survey& survey, TimeNs now)
    : context_(context),
      communicator_(communicator),
      premises_(survey.premises()),
      premises_at_ns_(now),
      basis_(*survey.outcome()),
      residuals_(limits_of(survey.drift_percent())),
      interval_ns_(context.process.settings().drift_interval_ns) {
  verdicts_.assign(static_cast<size_t>(communicator.ranks()), Verdict::steady);
  context_.process.add_polled(*this);
  make_forecast();
}

void Drift::make_forecast() {
  auto forecast = topology::Forecast::make(layout_of(communicator_.membership()), basis_.profile);
  forecast_ = forecast.ok() ? std::move(*forecast) : nullptr;
}

// Whoever goes has made all of its calls, so that no number lies ahead that everybody will come to.
Drift::~Drift() {
  context_.process.remove_polled(*this);
  if (leads()) {
    if (stage_ == Stage::proposed) say_to_all(Word::call_off, round_, 0);
  } else {
    say(0, Word::leave, round_, 0);
  }
}

// --- watching --------------------------------------------------------------------------------------------------------------------------

void Drift::add(Collective collective, uint64_t bytes, const collectives::Choice& choice, TimeNs took_ns) {
  // In other collectives a rank may be through before the rest.
  const bool all_wait_for_all =
      collective == Collective::allreduce || collective == Collective::reduce_scatter || collective == Collective::allgather;
  if (!all_wait_for_all || forecast_ == nullptr || stage_ != Stage::watching) return;
  const auto predicted = forecast_->of(choice, bytes);
  if (!predicted.ok()) return;
  residuals_.add(collective, bytes, took_ns, *predicted);
  const Verdict verdict = residuals_.verdict();
  if (verdict == told_) return;
  told_ = verdict;
  say(0, Word::verdict, round_, static_cast<uint32_t>(static_cast<int32_t>(verdict)), residuals_.text());
}

// --- agreeing --------------------------------------------------------------------------------------------------------------------------

void Drift::say(int32_t to, Word word, uint32_t round, uint32_t value, const std::string& text) {
  if (to == communicator_.rank()) return hear(to, word, round, value, text);
  const std::string shown = text.substr(0, kMostText);
  std::vector<std::byte> body(16 + shown.size());
  Writer writer(body);
  writer.u8(static_cast<uint8_t>(word)).u32(round).u32(value).sized_text(shown);
  body.resize(writer.written());
  communicator_.tell_of_drift(to, body);
}

void Drift::say_to_all(Word word, uint32_t round, uint32_t value, const std::string& text) {
  for (int32_t rank = communicator_.ranks() - 1; rank >= 0; --rank) say(rank, word, round, value, text);
}

void Drift::on_message(int32_t from, std::span<const std::byte> body) {
  Reader reader(body);
  const auto word = static_cast<Word>(reader.u8());
  const uint32_t round = reader.u32(), value = reader.u32();
  const std::string text = reader.sized_text(kMostText);
  if (!reader.finished() || from < 0 || from >= communicator_.ranks()) return;
  hear(from, word, round, value, text);
}

// Words of a round that is over, or that only rank 0 may say, are left aside.
void Drift::hear(int32_t from, Word word, uint32_t round, uint32_t value, const std::string& text) {
  switch (word) {
    case Word::verdict:
      if (!leads() || round != round_) return;
      verdicts_[static_cast<size_t>(from)] = static_cast<Verdict>(std::clamp(static_cast<int32_t>(value), -1, 1));
      if (!text.empty()) why_ = text;
      return;
    case Word::propose:
      if (from == 0 && is_later(round, round_)) stage_ == Stage::watching ? on_proposed(round) : void(next_round_ = round);
      return;
    case Word::place:
      if (leads() && round == round_ && stage_ == Stage::proposed) take_place(from, value);
      return;
    case Word::agree:
      if (from == 0 && round == round_ && stage_ == Stage::proposed) on_agreed(value, text);
      return;
    case Word::call_off:
      if (from == 0 && round == next_round_) next_round_ = 0;
      if (from == 0 && round == round_ && stage_ == Stage::proposed) resume();
      return;
    case Word::leave:
      if (!leads()) return;
      left_ = true;
      if (stage_ == Stage::proposed) say_to_all(Word::call_off, round_, 0);
      return;
  }
}

void Drift::propose() {
  places_.assign(static_cast<size_t>(communicator_.ranks()), std::nullopt);
  say_to_all(Word::propose, round_ + 1, 0);
}

void Drift::on_proposed(uint32_t round) {
  round_ = round;
  stage_ = Stage::proposed;
  hold_from_ = communicator_.next_number() + kAhead;
  say(0, Word::place, round, communicator_.next_number());
}

// Everybody waits at the latest kAhead calls after its place, so nobody is beyond kAhead calls after the latest place.
void Drift::take_place(int32_t from, uint32_t number) {
  places_[static_cast<size_t>(from)] = number;
  uint32_t latest = number;
  for (const std::optional<uint32_t>& place : places_) {
    if (!place) return;
    if (is_later(*place, latest)) latest = *place;
  }
  say_to_all(Word::agree, round_, latest + kAhead, why_);
}

void Drift::on_agreed(uint32_t number, const std::string& why) {
  stage_ = Stage::agreed;
  hold_from_ = number;
  holds_ = false;
  held_since_ns_ = 0;
  why_ = why;
  context_.process.log().info(Subsystem::tuning, "communicator {:#x} rank {}: {}: its links are measured again before call #{}",
                              communicator_.membership().id, communicator_.rank(), why, number);
}

bool Drift::admits_now() {
  if (communicator_.next_number() != hold_from_ || !communicator_.state().ok()) return true;
  holds_ = true;
  return false;
}

void Drift::resume() {
  stage_ = Stage::watching;
  holds_ = false;
  held_since_ns_ = 0;
  if (const uint32_t round = std::exchange(next_round_, 0); round != 0) on_proposed(round);
}

// --- measuring -------------------------------------------------------------------------------------------------------------------------

bool Drift::poll(TimeNs now) {
  if (survey_ != nullptr) return go_on(now);
  if (!communicator_.state().ok()) return false;
  if (stage_ == Stage::watching) {
    if (!leads() || left_ || now < not_before_ns_ || common_verdict(verdicts_) == Verdict::steady) return false;
    propose();
    return true;
  }
  if (!holds_) return false;
  if (held_since_ns_ == 0) held_since_ns_ = now;
  if (stage_ == Stage::agreed && communicator_.collectives_idle()) {
    begin_survey(now);
    return true;
  }
  const TimeNs limit_ns = context_.process.settings().setup_timeout_ns;
  if (stage_ == Stage::proposed && now - held_since_ns_ > limit_ns) {
    communicator_.fail(timeout_error(
        fmt::format("rank 0 has not said within {} s when links are to be measured again (ISTHMUS_SETUP_TIMEOUT)", limit_ns / kSecondNs)));
  }
  return false;
}

void Drift::begin_survey(TimeNs now) {
  stage_ = Stage::measuring;
  Survey::Premises premises = premises_;
  premises.epoch = premises_.epoch + 1;
  premises.wall_clock_s += (now - premises_at_ns_) / kSecondNs;
  Membership shadow = communicator_.membership();
  const std::string name = fmt::format("survey {}", premises.epoch);
  shadow.id = Hasher(shadow.id).add(hash_text(name)).value();
  shadow.messenger = nullptr;  // what goes wrong is told by the communicator
  const auto crypto = context_.process.crypto();
  if (!crypto.ok()) return communicator_.fail(crypto.status());
  shadow.secret = derive_key(**crypto, shadow.secret, name);
  auto opened = open_communicator(context_, std::move(shadow));
  if (!opened.ok()) return communicator_.fail(opened.status().with_context("measuring links again"));
  shadow_ = std::move(*opened);
  survey_ = std::make_unique<Survey>(*shadow_, premises, now);
  held_since_ns_ = now;
}

bool Drift::go_on(TimeNs now) {
  survey_->poll(now);
  if (!survey_->over()) return false;
  end_survey(now);
  return true;
}

void Drift::end_survey(TimeNs now) {
  shadow_.reset();
  const std::unique_ptr<Survey> survey = std::move(survey_);
  if (!communicator_.state().ok()) return;
  if (!survey->status().ok()) return communicator_.fail(survey->status().with_context("measuring links again"));
  premises_.epoch = survey->premises().epoch;
  const bool vain = !survey->outcome() || profile_changes(basis_.profile, survey->outcome()->profile).empty();
  const TimeNs usual_ns = context_.process.settings().drift_interval_ns;
  interval_ns_ = vain ? std::min(2 * interval_ns_, kMostDoublings * usual_ns) : usual_ns;
  not_before_ns_ = now + interval_ns_;
  if (survey->outcome()) take_over(*survey->outcome(), now);
  residuals_.restart(vain);
  verdicts_.assign(verdicts_.size(), Verdict::steady);
  told_ = Verdict::steady;
  resume();
}

void Drift::take_over(const Survey::Outcome& outcome, TimeNs now) {
  const std::string links = profile_changes(basis_.profile, outcome.profile), choices = plan_changes(basis_.plan, outcome.plan);
  context_.process.log().info(Subsystem::tuning, "communicator {:#x} rank {}: profile epoch {}, measured in {}. {}. {}",
                              communicator_.membership().id, communicator_.rank(), outcome.plan.epoch, duration_text(now - held_since_ns_),
                              links.empty() ? "Links are as they were" : links, choices.empty() ? "The plan stays" : choices);
  follow_plan(context_, communicator_, outcome.plan);
  communicator_.remember_profile(to_json(outcome.profile));
  basis_ = outcome;
  make_forecast();
}

void Drift::on_failed(const Status& why) {
  if (shadow_ != nullptr) shadow_->fail(why);
}

void follow_survey(const Context& context, Communicator& communicator, const Survey& survey, TimeNs now) {
  if (!survey.outcome()) return;
  if (!survey.outcome()->sites.empty()) communicator.take_sites(survey.outcome()->sites);
  follow_plan(context, communicator, survey.outcome()->plan);
  communicator.remember_profile(to_json(survey.outcome()->profile));
  if (survey.drift_percent() > 0) communicator.watch_drift(std::make_unique<Drift>(context, communicator, survey, now));
}

}  // namespace isthmus::comm
