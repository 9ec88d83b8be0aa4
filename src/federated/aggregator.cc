// SPDX-License-Identifier: Apache-2.0
// aggregator.h: the door, the seats, and what ranks say. What they are told is in aggregator_rounds.cc.
#include "federated/aggregator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace isthmus::federated {
namespace {

constexpr int kMessagesAtOnce = 8;  // of one rank, before it is the others' turn

/// Bytes at the aggregator for each chunk of a vector: every rank's scales (as sent, as kept, for the next round) and indices, and results.
uint64_t bytes_per_chunk(const AggregatorOptions& options) {
  const codec::Thc& thc = *options.thc;
  const uint32_t chunk_elements = options.chunk_elements, results = options.kept_rounds + 1;
  const AggregateGrid chunk(thc, chunk_elements, chunk_elements);
  const uint64_t scales = 4 * chunk.groups();
  if (options.group) {  // words of 32 bits are the most; sums are held twice while they are made
    const uint64_t words = 4 * uint64_t{chunk_elements};
    return std::min(thc.ranks, options.at_once) * words + (results + 1) * (words + scales);
  }
  return thc.ranks * (chunk.index_bytes(0) + 3 * scales) + results * (chunk.sum_bytes(0) + scales);
}

Result<RoundRules> rules_of(const AggregatorOptions& options) {
  const codec::Thc& thc = *options.thc;
  RoundRules rules{.ranks = thc.ranks,
                   .quorum = options.quorum == 0 ? thc.ranks : options.quorum,
                   .deadline_ns = options.deadline_ns,
                   .limit_ns = options.group ? options.deadline_ns : options.limit_ns,
                   .chunk_elements = options.chunk_elements};
  if (thc.ranks > kMaxContributors)
    return invalid_argument(fmt::format("{} ranks: an aggregator has at most {}", thc.ranks, kMaxContributors));
  if (rules.quorum > rules.ranks)
    return invalid_argument(fmt::format("a quorum of {} is more than the {} ranks", rules.quorum, rules.ranks));
  if (rules.deadline_ns > rules.limit_ns) {
    return invalid_argument(
        fmt::format("the deadline ({}) is later than the limit ({})", duration_text(rules.deadline_ns), duration_text(rules.limit_ns)));
  }
  if (options.group) {
    rules.group = options.group;
    rules.masking = options.masking;
    rules.epoch = options.epoch;
    rules.at_once = std::max(1U, options.at_once);
    rules.elements_at_once = options.elements_at_once;
    ISTHMUS_TRY(check(*options.group, thc.ranks));
    if (options.group->masked && options.masking == nullptr) return internal_error("masks without cryptography");
    if (options.group->masked) rules.quorum = std::max(rules.quorum, options.group->masks.min_cohort);
  }
  if (thc.config.feedback) return invalid_argument("an aggregator keeps nothing of what encodings lack: ef=on is not for it");
  if (rules.chunk_elements == 0 || rules.chunk_elements % kChunkAlignElements != 0 || rules.chunk_elements > kMaxChunkElements) {
    return invalid_argument(fmt::format("chunks of {} elements: they have a multiple of {}, at most {}", rules.chunk_elements,
                                        kChunkAlignElements, kMaxChunkElements));
  }
  if (options.kept_rounds == 0) return invalid_argument("the result of at least one round must be kept");
  const AggregateGrid chunk(thc, rules.chunk_elements, rules.chunk_elements);
  const uint64_t links = options.group ? std::min(thc.ranks, rules.at_once) : thc.ranks;
  const uint64_t buffers = links * (chunk.index_bytes(0) + IndicesHead::kBytes);  // links' own
  const uint64_t each = bytes_per_chunk(options);
  if (options.memory_bytes < buffers + each) {
    return invalid_argument(fmt::format("{} bytes of memory are not enough for one chunk of {} elements from {} ranks: {} are",
                                        options.memory_bytes, rules.chunk_elements, thc.ranks, buffers + each));
  }
  rules.max_elements = std::min(kMaxVectorElements, (options.memory_bytes - buffers) / each * rules.chunk_elements);
  return rules;
}

size_t max_message_bytes(const codec::Thc& thc, const RoundRules& rules) {
  const AggregateGrid most(thc, rules.max_elements, rules.chunk_elements);
  const size_t plain = std::max({kMaxJoinBytes, kOfferHeadBytes + 4 * most.groups(), IndicesHead::kBytes + most.index_bytes(0)});
  if (!rules.group) return plain;
  const AggregateGrid words(thc, rules.max_elements, rules.chunk_elements, Form::integers, kMaxWordBits);
  return std::max({plain, kOfferHeadBytes + Advertisement::kBytes, IndicesHead::kBytes + words.index_bytes(0) + 4 * codec::kUnitElements,
                   MaskKeeper::max_message_bytes(rules.ranks)});
}

}  // namespace

uint64_t aggregator_number() { return hash_text("isthmus aggregator"); }

Key aggregator_key(const Crypto& crypto, const Key& secret) { return derive_key(crypto, secret, "isthmus aggregator"); }

Result<std::unique_ptr<Aggregator>> Aggregator::open(const bootstrap::Surroundings& surroundings, const Key& key, AggregatorOptions options,
                                                     std::span<const transport::Address> listen_at) {
  ISTHMUS_ASSIGN(RoundRules rules, rules_of(options));
  std::array<std::byte, sizeof(uint64_t)> seed{};
  ISTHMUS_TRY(surroundings.random(seed));
  rules.mask_seed = hash_bytes(seed);
  std::unique_ptr<Aggregator> aggregator(new Aggregator(surroundings, key, std::move(options), rules));
  aggregator->seed_ = rules.mask_seed;
  ISTHMUS_TRY(aggregator->reception_.open(listen_at, bootstrap::UniqueId::kRoots));
  return aggregator;
}

Aggregator::Aggregator(const bootstrap::Surroundings& surroundings, const Key& key, AggregatorOptions options, const RoundRules& rules)
    : surroundings_(surroundings),
      key_(key),
      options_(std::move(options)),
      rules_(rules),
      reception_(surroundings, *this, "the aggregator"),
      seats_(rules.ranks),
      round_(1, *options_.thc, *options_.target, rules, [this](uint32_t rank) { return seats_[rank].absence; }) {}

bool Aggregator::poll(TimeNs now) {
  due_at_ = kNever;
  if (!stopped_) reception_.poll(now);
  farewells_.poll(now);
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) hear(rank, now);
  if (advance(now)) due_at_ = now;
  for (uint32_t rank = 0; round_.has_room() && rank < seats_.size(); ++rank)
    if (round_.is_paused(rank) && seats_[rank].link) due_at_ = now;
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) keep_company(rank, now);
  due_at_ = std::min(due_at_, round_.due());
  if (reception_.busy() || !farewells_.empty()) due_at_ = std::min(due_at_, now + bootstrap::Reception::kBusyTickNs);
  return !has_ended(now);
}

void Aggregator::waits(std::vector<transport::Wait>& waits) const {
  reception_.waits(waits);
  farewells_.waits(waits);
  for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
    const Seat& seat = seats_[rank];
    // What a paused rank has sent stays with the system.
    if (seat.link && (!round_.is_paused(rank) || seat.link->unsent_bytes() > 0)) seat.link->waits(waits);
  }
}

uint32_t Aggregator::connected() const {
  return static_cast<uint32_t>(std::count_if(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.joined; }));
}

bool Aggregator::told(uint64_t round) const {
  for (const auto& outcome : kept_) {
    if (outcome->round != round) continue;
    for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
      const Seat& seat = seats_[rank];
      if (!seat.link || !outcome->roster[rank]) continue;
      const bool answered = !round_.masked() || !outcome->failure.ok() || seat.revealed_round >= round;
      if (seat.served_round < round || seat.link->unsent_bytes() > 0 || !answered) return false;
    }
    return true;
  }
  return round < round_.number();
}

Aggregator::Counters Aggregator::counters() const {
  Counters counters = counters_;
  static_cast<bootstrap::Reception::Counters&>(counters) = reception_.counters();
  return counters;
}

// --- the door --------------------------------------------------------------------------------------------------------------------

wire::Handshake::KeyAnswer Aggregator::key_for(const wire::Hello& claim) const {
  const bool plausible = claim.communicator == aggregator_number() && claim.purpose == wire::Purpose::aggregate && claim.epoch == 0 &&
                         claim.ranks >= 1 && claim.rank >= 0 && claim.rank < claim.ranks;
  return {.key = plausible ? &key_ : nullptr};
}

bool Aggregator::has_come(int32_t rank, const transport::ProcessId& process) const {
  const auto at = static_cast<size_t>(rank);
  return at < seats_.size() && seats_[at].link && seats_[at].process == process;
}

void Aggregator::admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) {
  bootstrap::Link link(std::move(stream), kMaxJoinBytes);
  if (hello.ranks != static_cast<int32_t>(seats_.size())) {
    turn_away(std::move(link),
              fmt::format("rank {} was told that there are {} ranks, but the aggregator serves {}", hello.rank, hello.ranks, seats_.size()),
              counters_.misfits, now);
    return;
  }
  const auto rank = static_cast<uint32_t>(hello.rank);
  Seat& seat = seats_[rank];
  if (seat.link && seat.process != hello.process) hear(rank, now);  // is the first still there?
  if (seat.link && seat.process != hello.process) {
    turn_away(std::move(link),
              fmt::format("rank {} is taken by another process, at {}", rank, transport::to_string(seat.link->peer_address())),
              counters_.duplicates, now);
    return;
  }
  if (seat.link) vacate(seat, rank, "came again by another connection");
  seat.link = std::move(link);
  seat.process = hello.process;
  seat.came_at = seat.moved_at = seat.beat_at = now;
  hear(rank, now);
}

void Aggregator::turn_away(bootstrap::Link link, const std::string& why, uint64_t& counter, TimeNs now) {
  if (worth_logging(++counter)) surroundings_.log.warn("the aggregator refuses {}: {}", transport::to_string(link.peer_address()), why);
  link.send(static_cast<uint8_t>(AggregateType::refusal), encode_refusal(invalid_usage(why)));
  farewells_.add(std::move(link), now);
}

// --- what ranks say --------------------------------------------------------------------------------------------------------------

void Aggregator::hear(uint32_t rank, TimeNs now) {
  Seat& seat = seats_[rank];
  for (int turn = 0; seat.link; ++turn) {
    if (turn == kMessagesAtOnce) {
      due_at_ = now;
      return;
    }
    if (!round_.admits(rank)) return;
    const auto message = seat.link->receive();
    if (!message.ok()) return lose(rank, message.status(), counters_.lost);
    if (!message->has_value()) return;
    counters_.received_bytes += (*message)->body.size() + bootstrap::Link::kHeaderBytes;
    if (const Status status = on_message(rank, **message, now); !status.ok()) return lose(rank, status, counters_.malformed);
  }
}

Status Aggregator::on_message(uint32_t rank, const bootstrap::Message& message, TimeNs now) {
  Seat& seat = seats_[rank];
  const auto type = static_cast<AggregateType>(message.type);
  if (type == AggregateType::leave) {
    ++counters_.left;
    vacate(seat, rank, "has left");
    return {};
  }
  if (type == AggregateType::join && !seat.joined) return on_join(rank, message.body, now);
  if (type == AggregateType::offer && seat.joined) return on_offer(rank, message.body, now);
  if (type == AggregateType::indices && seat.joined) return on_indices(rank, message.body, now);
  if (type == AggregateType::shares && seat.joined) return round_.share(rank, message.body);
  if (type == AggregateType::reveal && seat.joined) {
    ISTHMUS_ASSIGN(const MemberMessage revealed, decode_member_message(message.body));
    seat.revealed_round = std::max(seat.revealed_round, std::min(revealed.round, round_.number()));
    return round_.reveal(rank, message.body);
  }
  return remote_error(fmt::format("it sends a message of type {}, which is not for now", message.type));
}

Status Aggregator::on_join(uint32_t rank, std::span<const std::byte> body, TimeNs now) {
  ISTHMUS_ASSIGN(const Join join, decode_join(body));
  Seat& seat = seats_[rank];
  const codec::Thc& thc = *options_.thc;
  const std::string mine = to_text(thc.config);
  std::string misfit;
  if (join.version != kAggregateVersion) {
    misfit = fmt::format("rank {} speaks version {} of the protocol, the aggregator version {}", rank, join.version, kAggregateVersion);
  } else if (join.codec_hash != 0 && join.codec_hash != thc.hash) {
    misfit = fmt::format("rank {} would encode with '{}', but the aggregator adds '{}'", rank, join.codec, mine);
  }
  if (!misfit.empty()) {
    bootstrap::Link link = std::move(*seat.link);
    vacate(seat, rank, "was refused");
    turn_away(std::move(link), misfit, counters_.misfits, now);
    return {};
  }
  seat.joined = true;
  seat.absence = "connected, but has not called";
  seat.served_round = next_round() - 1;
  round_.expect(rank, true);
  seat.link->set_max_body_bytes(max_message_bytes(thc, rules_));
  say(seat, AggregateType::welcome,
      encode(Welcome{.seed = seed_,
                     .round = next_round(),
                     .max_elements = rules_.max_elements,
                     .codec_hash = thc.hash,
                     .chunk_elements = rules_.chunk_elements,
                     .quorum = rules_.quorum,
                     .deadline_ns = rules_.deadline_ns,
                     .limit_ns = rules_.limit_ns,
                     .epoch = rules_.epoch,
                     .group = rules_.group,
                     .codec = mine}));
  surroundings_.log.info(Subsystem::bootstrap, "Aggregator: rank {} has come, at {}", rank,
                         transport::to_string(seat.link->peer_address()));
  return {};
}

Status Aggregator::on_offer(uint32_t rank, std::span<const std::byte> body, TimeNs now) {
  ISTHMUS_ASSIGN(const Offer offer, decode_offer(body));
  Seat& seat = seats_[rank];
  if (seat.serving || seat.early) return remote_error("it offers a vector before it has the last result");
  if (offer.round == 0 || offer.round > next_round()) {
    return remote_error(fmt::format("it offers a vector for round {}, and the next is {}", offer.round, next_round()));
  }
  if (!round_.is_member(rank)) {
    say_failed(seat, offer.round, next_round(), invalid_usage(fmt::format("rank {} is not among those whose sum this is", rank)));
    return {};
  }
  const bool newer = options_.follows_epochs && offer.epoch > rules_.epoch;
  if (newer && offer.round == next_round() && round_.gathering()) set_epoch(offer.epoch, now);
  if (offer.epoch != rules_.epoch && !(newer && offer.round == next_round())) {
    refuse_stale(rank, offer.round, offer.epoch, rules_.epoch);
  } else if (offer.round == next_round() && !ended_.ok()) {
    say_ended(seat);
  } else if (offer.round == next_round() && round_.gathering()) {
    ISTHMUS_TRY(round_.offer(rank, offer.signature, offer.scales, now));
    round_bytes_ += body.size();
    serve(seat, round_.outcome());
  } else if (offer.round == next_round()) {
    seat.early = EarlyOffer{.epoch = offer.epoch, .signature = offer.signature, .scales = {offer.scales.begin(), offer.scales.end()}};
  } else {
    on_late_offer(rank, offer);
  }
  return {};
}

/// It gets the result of the round that it missed, if that is still here.
void Aggregator::on_late_offer(uint32_t rank, const Offer& offer) {
  Seat& seat = seats_[rank];
  const bool over = offer.round != round_.number() || round_.over();
  std::shared_ptr<Outcome> outcome;
  if (offer.round == round_.number()) outcome = round_.outcome();
  for (const auto& each : kept_)
    if (each->round == offer.round) outcome = each;
  if (outcome && outcome->epoch != offer.epoch) return refuse_stale(rank, offer.round, offer.epoch, outcome->epoch);
  Status refused;
  if (!outcome) {
    refused =
        invalid_usage(fmt::format("rank {} came for round {}, but is so late that its result is gone (the aggregator keeps {}); the "
                                  "next is round {}",
                                  rank, offer.round, options_.kept_rounds, next_round()));
  } else if (outcome->failure.ok() && offer.signature != outcome->signature) {
    refused = invalid_usage(fmt::format("round {}: rank {} came late and wants the {}, but the others made the {}", offer.round, rank,
                                        to_string(offer.signature), to_string(outcome->signature)));
  }
  if (over) {
    ++counters_.late;
    late_arrivals_.push_back({.round = offer.round, .rank = rank, .served = refused.ok()});
  } else {
    round_.come_late(rank);
  }
  if (refused.ok()) return serve(seat, outcome);
  say_failed(seat, offer.round, outcome ? offer.round + 1 : next_round(), refused);
}

Status Aggregator::on_indices(uint32_t rank, std::span<const std::byte> body, TimeNs now) {
  ISTHMUS_ASSIGN(const auto carried, decode_indices(body));
  if (carried.head.round > round_.number() || (carried.head.round == round_.number() && round_.gathering())) {
    return remote_error(fmt::format("it sends indices for round {} too early", carried.head.round));
  }
  // What was on its way when its sender left the roster is for nobody.
  if (carried.head.round < round_.number() || !round_.is_due_from(rank)) return {};
  round_bytes_ += body.size();
  return round_.add(rank, carried.head.chunk, carried.payload, now, carried.head.weight);
}

void Aggregator::refuse_stale(uint32_t rank, uint64_t round, uint64_t epoch, uint64_t right) {
  ++counters_.stale;
  say_failed(seats_[rank], round, next_round(),
             invalid_usage(
                 fmt::format("rank {} contributes to epoch {} of the cohort, and round {} is of epoch {}: what it has belongs to another "
                             "grouping",
                             rank, epoch, round, right)));
}

void Aggregator::set_epoch(uint64_t epoch, TimeNs now) {
  if (epoch == rules_.epoch) return;
  const uint64_t before = std::exchange(rules_.epoch, epoch);
  due_at_ = now;
  for (uint32_t rank = 0; round_.gathering() && rank < seats_.size(); ++rank) {
    if (!round_.has_offer(rank)) continue;
    seats_[rank].serving.reset();
    refuse_stale(rank, round_.number(), before, epoch);
  }
  round_.set_epoch(epoch);
}

void Aggregator::convene(const RankSet& members, uint32_t quorum, uint64_t epoch, TimeNs now) {
  give_up("another sum begins", now);
  const bool masked = rules_.group && rules_.group->masked;
  rules_.quorum = std::max(quorum, masked ? rules_.group->masks.min_cohort : 1);
  round_.convene(members, rules_.quorum);
  set_epoch(epoch, now);
}

void Aggregator::lose(uint32_t rank, const Status& why, uint64_t& counter) {
  Seat& seat = seats_[rank];
  reception_.note(counter, fmt::format("lost rank {} at", rank), seat.link->peer_address(), why);
  vacate(seat, rank, "lost: " + why.text());
}

void Aggregator::vacate(Seat& seat, uint32_t rank, std::string absence) {
  seat = {.served_round = seat.served_round, .absence = std::move(absence)};
  round_.lose(rank);
}

}  // namespace isthmus::federated
