// SPDX-License-Identifier: Apache-2.0
// aggregator.h: how rounds go on, what ranks are told of them, and the end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "federated/aggregator.h"
#include "federated/contribution.h"

namespace isthmus::federated {
namespace {

constexpr int kTurnsAtOnce = 4;               // with one rank, before it is the others' turn
constexpr TimeNs kBeatNs = 5 * kSecondNs;     // something is said at least so often, also to a rank that computes
constexpr TimeNs kJoinNs = 10 * kSecondNs;    // from proof to join message
constexpr TimeNs kPartingNs = 2 * kSecondNs;  // for ranks to read what they were told last

}  // namespace

bool Aggregator::advance(TimeNs now) {
  if (!ended_.ok()) return false;
  const bool gathered = round_.gathering();
  bool changed = round_.poll(now);
  if (gathered && !round_.gathering() && !round_.over()) {
    // The others need not be waited for again unless they come back.
    for (uint32_t rank = 0; rank < seats_.size(); ++rank)
      if (!seats_[rank].joined) round_.expect(rank, false);
  }
  if (round_.over()) {  // also by what a rank said
    conclude(now);
    changed = true;
  }
  return changed;
}

void Aggregator::conclude(TimeNs now) {
  const std::shared_ptr<Outcome>& outcome = round_.outcome();
  RoundReport report{.round = outcome->round,
                     .signature = outcome->signature,
                     .late = outcome->late,
                     .failure = outcome->failure,
                     .received_bytes = std::exchange(round_bytes_, 0),
                     .duration_ns = now - round_.began_at(),
                     .editions = outcome->edition,
                     .epoch = rules_.epoch};
  if (outcome->failure.ok()) {
    report.contributors = outcome->roster;
    report.weight_sum = weight_of(outcome->weight_sum);
    report.result_bytes = outcome->scales->size();
    for (const auto& sum : outcome->sums) report.result_bytes += sum->size();
  }
  counters_.late += outcome->late.count();
  reports_.push_back(std::move(report));
  kept_.push_back(outcome);
  if (kept_.size() > options_.kept_rounds) {
    forget(*kept_.front());
    kept_.pop_front();
  }
  if (outcome->round == options_.rounds)
    ended_ = invalid_usage(fmt::format("the aggregator has ended after its {} rounds", options_.rounds));
  if (ended_.ok()) return begin_next(now);
  linger_until_ = later(now, rules_.limit_ns);
  for (Seat& seat : seats_)
    if (std::exchange(seat.early, std::nullopt)) say_ended(seat);
}

/// An outcome is not kept for those who take it too slowly: memory must not depend on them.
void Aggregator::forget(const Outcome& outcome) {
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = seats_[rank];
    if (seat.serving.get() != &outcome) continue;
    say_failed(seat, outcome.round, next_round(),
               timeout_error(fmt::format("rank {} is too slow: the result of round {} is not kept any longer", rank, outcome.round)));
    seat.serving.reset();
  }
}

void Aggregator::begin_next(TimeNs now) {
  round_.next();
  if (options_.follows_epochs) {
    for (const Seat& seat : seats_)
      if (seat.early) rules_.epoch = std::max(rules_.epoch, seat.early->epoch);
  }
  round_.set_epoch(rules_.epoch);
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
    const auto early = std::exchange(seats_[rank].early, std::nullopt);
    if (!early) continue;
    if (early->epoch != rules_.epoch) {
      refuse_stale(rank, round_.number(), early->epoch, rules_.epoch);
      continue;
    }
    if (!round_.gathering()) {  // one of these has failed it
      serve(seats_[rank], round_.outcome());
      continue;
    }
    const Status offered = round_.offer(rank, early->signature, early->scales, now);
    if (!offered.ok()) {
      lose(rank, offered, counters_.malformed);
      continue;
    }
    round_bytes_ += kOfferHeadBytes + early->scales.size();
    serve(seats_[rank], round_.outcome());
  }
}

Status Aggregator::decode(uint64_t round, std::span<float> sum) const {
  std::shared_ptr<const Outcome> outcome;
  for (const auto& each : kept_)
    if (each->round == round && each->finished) outcome = each;
  if (!outcome || outcome->signature.count != sum.size() || outcome->signature.type != DataType::float32) {
    return invalid_usage(fmt::format("round {} has no sum of {} floats, or it is not kept", round, sum.size()));
  }
  const AggregateGrid& grid = outcome->grid;
  const Contribution into{.in = nullptr, .out = sum.data(), .signature = outcome->signature};
  const kernels::CodecKey key{.seed = seed_, .op = round, .rank = 0, .ranks = rules_.ranks};
  Coding coding(*options_.thc, *options_.target, key, rules_.chunk_elements, into, grid.form());
  if (grid.has_words()) coding.set_bits(grid.bits());
  const auto scales = std::span<const std::byte>(*outcome->scales).subspan(kScalesHeadBytes);
  const auto summands = static_cast<uint32_t>(outcome->roster.count());
  std::vector<uint32_t> words;
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const auto body = std::span<const std::byte>(*outcome->sums[chunk]).subspan(SumsHead::kBytes);
    if (grid.has_words()) {
      words.resize(grid.words(chunk));
      unpack_words(body, grid.bits(), words);
      coding.decode_words(chunk, scales, words, summands);
    } else {
      coding.decode(chunk, scales, body, summands);
    }
  }
  return {};
}

// --- what ranks are told ---------------------------------------------------------------------------------------------------------

void Aggregator::serve(Seat& seat, const std::shared_ptr<Outcome>& outcome) {
  seat.serving = outcome;
  seat.scales_sent = false;
  seat.editions_sent = 0;
  seat.sums_sent = 0;
  seat.keys_sent = seat.inbox_sent = seat.commit_sent = false;
}

/// The next message of what it is being told, if there is one.
bool Aggregator::tell(Seat& seat, uint32_t rank) {
  if (!seat.serving) return false;
  const Outcome& outcome = *seat.serving;
  if (outcome.failure.ok() && !outcome.scales) return false;
  if (outcome.failure.ok() && !std::exchange(seat.scales_sent, true)) {
    say(seat, AggregateType::scales, outcome.scales);
    return true;
  }
  if (outcome.failure.ok() && seat.editions_sent != outcome.edition + 1) {
    const uint32_t bits = outcome.grid.form() == Form::levels ? outcome.grid.bits() : 0;
    say(seat, AggregateType::roster,
        encode(Roster{.round = outcome.round, .edition = outcome.edition, .word_bits = bits, .ranks = outcome.roster}));
    seat.editions_sent = outcome.edition + 1;
    seat.sums_sent = 0;
    return true;
  }
  if (round_.masked() && seat.serving == round_.outcome() && !round_.over() && tell_masks(seat, rank)) return true;
  if (seat.sums_sent < outcome.sums.size()) {
    say(seat, AggregateType::sums, outcome.sums[seat.sums_sent++]);
    return true;
  }
  if (outcome.failure.ok() && !outcome.finished) return false;
  if (outcome.failure.ok()) {
    say(seat, AggregateType::end,
        encode(End{.round = outcome.round, .edition = outcome.edition, .late = outcome.late, .weight_sum = outcome.weight_sum}));
  } else {
    say_failed(seat, outcome.round, outcome.round + 1, outcome.failure);
  }
  seat.served_round = outcome.round;
  seat.serving.reset();
  return true;
}

/// What only a rank that takes part in masking is told, one thing after the other.
bool Aggregator::tell_masks(Seat& seat, uint32_t rank) {
  const Outcome& outcome = *seat.serving;
  const auto say_once = [&](bool& said, bool ready, AggregateType type, auto body) {
    if (said || !ready) return false;
    said = true;
    say(seat, type, std::make_shared<const std::vector<std::byte>>(body()));
    return true;
  };
  const MaskKeeper& masks = round_.masks();
  const bool shared = outcome.sharing_closed && masks.sharers()[rank];
  return say_once(seat.keys_sent, round_.in_cohort(rank), AggregateType::keys, [&] { return masks.keys_for(rank); }) ||
         say_once(seat.inbox_sent, shared, AggregateType::inbox, [&] { return masks.inbox_for(rank); }) ||
         say_once(seat.commit_sent, outcome.committed && outcome.roster[rank], AggregateType::commit,
                  [&] { return masks.commit_message(); });
}

void Aggregator::say(Seat& seat, AggregateType type, bootstrap::SharedBytes body) {
  counters_.sent_bytes += body->size() + bootstrap::Link::kHeaderBytes;
  seat.link->send(static_cast<uint8_t>(type), std::move(body));
}

void Aggregator::say_failed(Seat& seat, uint64_t round, uint64_t next_round, const Status& why, bool ended) {
  say(seat, AggregateType::failed, encode(Failed{.round = round, .next_round = next_round, .ended = ended, .why = why}));
}

void Aggregator::say_ended(Seat& seat) {
  say_failed(seat, next_round(), next_round(), ended_, true);
  seat.served_round = round_.number();
}

/// Tells a rank what there is to tell, as fast as it takes it.
Status Aggregator::send(Seat& seat, uint32_t rank, TimeNs now) {
  for (int turn = 0; turn < kTurnsAtOnce; ++turn) {
    while (seat.link->unsent_bytes() < options_.queue_bytes && tell(seat, rank)) continue;
    const size_t before = seat.link->unsent_bytes();
    ISTHMUS_TRY(seat.link->flush());
    if (seat.link->unsent_bytes() == before) return {};
    seat.moved_at = seat.beat_at = now;
  }
  if (seat.serving) due_at_ = now;
  return {};
}

/// Whether it is still there, and sees to it that the way to it stays open.
Status Aggregator::check(Seat& seat, TimeNs now) {
  const TimeNs beat_ns = std::min(kBeatNs, options_.peer_timeout_ns / 4);
  due_at_ = std::min(due_at_, later(now, beat_ns));
  if (!seat.joined && now >= later(seat.came_at, kJoinNs)) return timeout_error("it proved itself, but does not say what it wants");
  if (seat.link->unsent_bytes() == 0) {
    seat.moved_at = now;
    if (!seat.joined || now < later(seat.beat_at, beat_ns)) return {};
    say(seat, AggregateType::heartbeat, std::make_shared<const std::vector<std::byte>>());
    seat.beat_at = now;
    return seat.link->flush();
  }
  if (now < later(seat.moved_at, options_.peer_timeout_ns)) return {};
  return timeout_error(fmt::format("it has taken nothing for {}", duration_text(options_.peer_timeout_ns)));
}

void Aggregator::keep_company(uint32_t rank, TimeNs now) {
  Seat& seat = seats_[rank];
  if (!seat.link) return;
  Status status = send(seat, rank, now);
  if (status.ok()) status = check(seat, now);
  if (!status.ok()) lose(rank, status, counters_.lost);
}

// --- the end ---------------------------------------------------------------------------------------------------------------------

void Aggregator::stop(const std::string& why, TimeNs now) {
  stopped_ = true;
  due_at_ = now;
  reception_.close();
  if (!ended_.ok()) return;
  ended_ = remote_error("the aggregator was stopped: " + why);
  if (round_.began_at() == kNever) return;
  round_.fail(remote_error(fmt::format("round {}: {}", round_.number(), ended_.text())));
  conclude(now);
}

void Aggregator::give_up(const std::string& why, TimeNs now) {
  if (!ended_.ok() || round_.began_at() == kNever) return;
  round_.fail(timeout_error(fmt::format("round {}: {}", round_.number(), why)));
  conclude(now);
  due_at_ = now;
}

/// Nobody needs it any longer: its ranks have what they were to be told, and have gone or had the time to read it.
bool Aggregator::has_ended(TimeNs now) {
  if (ended_.ok()) return false;
  bool somebody = false, somebody_waits = false;
  for (const Seat& seat : seats_) {
    if (!seat.link) continue;
    const bool awaited = !stopped_ && seat.joined && seat.served_round < round_.number() && now < linger_until_;
    somebody = true;
    somebody_waits |= awaited || seat.serving != nullptr || seat.link->unsent_bytes() > 0;
  }
  if (!somebody) return true;
  if (somebody_waits && !stopped_) part_by_ = kNever;
  if (!somebody_waits || stopped_) part_by_ = std::min(part_by_, later(now, kPartingNs));
  due_at_ = std::min({due_at_, part_by_, linger_until_});
  return now >= part_by_;
}

}  // namespace isthmus::federated
