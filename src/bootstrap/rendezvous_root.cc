// SPDX-License-Identifier: Apache-2.0
// Root of rendezvous.h: strangers at the door, arrivals inside, one table at the end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_messages.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kMaxStrangers = 128;
constexpr int kAcceptedAtOnce = 64;
constexpr TimeNs kIdleNs = 2 * kSecondNs;                // a stranger that makes no progress for so long is dropped
constexpr TimeNs kProofNs = 10 * kSecondNs;              // and so is one that is merely slow
constexpr TimeNs kUndisturbedNs = 100 * kMillisecondNs;  // not even a silent one is evicted sooner
constexpr TimeNs kFarewellNs = 2 * kSecondNs;            // for a refused member to read why
constexpr TimeNs kBackOffNs = 100 * kMillisecondNs;      // after the system refused to accept (no descriptors, no memory)
constexpr TimeNs kWithdrawnNs = kSecondNs;               // for a rank's connection that won, after one that lost has closed
constexpr TimeNs kTickNs = kSecondNs;                    // who is missing is told so often; gone ranks are noticed
constexpr TimeNs kBusyTickNs = 50 * kMillisecondNs;      // while somebody's deadline is near

uint8_t type(RendezvousType value) { return static_cast<uint8_t>(value); }

}  // namespace

Root::Root(const Surroundings& surroundings, const Options& options, const UniqueId& id)
    : surroundings_(surroundings), options_(options), id_(id), key_(rendezvous_key(surroundings.crypto, id_)) {}

Result<std::unique_ptr<Root>> Root::open(const Surroundings& surroundings, const Options& options, const UniqueId& id,
                                         std::span<const transport::Address> listen_at) {
  std::unique_ptr<Root> root(new Root(surroundings, options, id));
  root->id_.roots = {};
  Status last = invalid_argument("the root has no address to listen at");
  for (const transport::Address& address : listen_at) {
    if (address.family == 0) continue;
    if (root->listeners_.size() == UniqueId::kRoots) break;
    auto listener = surroundings.network.listen(address);
    if (!listener.ok()) {
      last = listener.status();
      continue;
    }
    root->id_.roots[root->listeners_.size()] = (*listener)->address();
    surroundings.log.info(Subsystem::bootstrap, "Bootstrap: root listens at {}", transport::to_string((*listener)->address()));
    root->listeners_.push_back(std::move(*listener));
  }
  if (root->listeners_.empty()) return last;
  return root;
}

Result<bool> Root::poll(TimeNs now) {
  if (!failure_.ok()) return failure_;
  if (finished_) return true;
  accept(now);
  serve_strangers(now);
  judge_departures(now);
  serve_farewells(now);
  const bool tick = now >= next_tick_at_;
  serve_arrivals(tick);
  const auto everybody = [this] { return !arrivals_.empty() && complete_ == static_cast<int32_t>(arrivals_.size()); };
  if (everybody()) serve_arrivals(true);  // somebody may have gone again unnoticed
  if (everybody()) {
    ISTHMUS_TRY(finish());
    return true;
  }
  if (now >= give_up_at_) return give_up();
  if (tick) {
    tell_who_is_missing();
    next_tick_at_ = now + kTickNs;
  }
  due_at_ = std::min(give_up_at_, strangers_.empty() && farewells_.empty() ? next_tick_at_ : now + kBusyTickNs);
  return false;
}

void Root::waits(std::vector<transport::Wait>& waits) const {
  if (strangers_.size() < kMaxStrangers) {  // else the listeners stay ready and would keep the driver awake
    for (const auto& listener : listeners_) add_wait(waits, listener->fd(), false);
  }
  for (const Stranger& stranger : strangers_) add_wait(waits, stranger.stream->fd(), stranger.stream->wants_write());
  for (const Arrival& arrival : arrivals_)
    if (arrival.link) arrival.link->waits(waits);
}

std::vector<std::optional<Link>> Root::take_links() {
  std::vector<std::optional<Link>> links;
  for (Arrival& arrival : arrivals_) links.push_back(std::move(arrival.link));
  arrivals_.clear();
  return links;
}

// --- the door --------------------------------------------------------------------------------------------------------------------

void Root::accept(TimeNs now) {
  if (now < accept_again_at_) return;
  for (const auto& listener : listeners_) {
    for (int i = 0; i < kAcceptedAtOnce && make_room(now); ++i) {
      auto stream = listener->accept();
      if (stream.ok() && *stream == nullptr) break;
      const Status status = stream.ok() ? receive(std::move(*stream), now) : stream.status();
      if (status.ok()) continue;
      if (worth_logging(++counters_.unaccepted)) {
        surroundings_.log.warn("the root cannot accept connections at {} just now: {} ({} times so far)",
                               transport::to_string(listener->address()), status.text(), counters_.unaccepted);
      }
      accept_again_at_ = now + kBackOffNs;
      return;
    }
  }
}

/// True if one more stranger fits, for which the oldest that never said anything may have to go.
bool Root::make_room(TimeNs now) {
  if (strangers_.size() < kMaxStrangers) return true;
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(), [](const Stranger& stranger) { return stranger.silent; });
  if (oldest == strangers_.end() || now - oldest->came_at < kUndisturbedNs) return false;
  note(counters_.evicted, "dropped", oldest->stream->peer_address(), remote_error("silent, and its place was needed"));
  strangers_.erase(oldest);
  return true;
}

Status Root::receive(std::unique_ptr<transport::Stream> stream, TimeNs now) {
  wire::Nonce nonce;
  ISTHMUS_TRY(surroundings_.random(nonce));
  const wire::Hello mine{.rank = -1, .process = surroundings_.process};
  auto handshake = wire::Handshake::respond(
      surroundings_.crypto, mine, [this](const wire::Hello& claim) { return key_for(claim); }, nonce);
  const size_t wanted = handshake.wanted();
  ++counters_.accepted;
  strangers_.push_back({.stream = std::move(stream), .handshake = std::move(handshake), .came_at = now, .heard_at = now, .wanted = wanted});
  return {};
}

wire::Handshake::KeyAnswer Root::key_for(const wire::Hello& claim) const {
  const bool plausible = claim.communicator == rendezvous_number(id_) && claim.purpose == wire::Purpose::rendezvous && claim.epoch == 0 &&
                         claim.ranks >= 1 && claim.ranks <= kMaxRanks && claim.rank >= 0 && claim.rank < claim.ranks;
  return {.key = plausible ? &key_ : nullptr};
}

void Root::serve_strangers(TimeNs now) {
  std::erase_if(strangers_, [&](Stranger& stranger) { return serve(stranger, now); });
}

bool Root::serve(Stranger& stranger, TimeNs now) {
  const transport::Address from = stranger.stream->peer_address();
  const auto proven = advance(stranger.handshake, *stranger.stream);
  if (!proven.ok()) {
    depart(stranger, proven.status(), now);
    return true;
  }
  if (*proven) {
    admit(stranger.handshake.peer(), std::move(stranger.stream), now);
    return true;
  }
  if (stranger.handshake.wanted() != stranger.wanted) {
    stranger.wanted = stranger.handshake.wanted();
    stranger.heard_at = now;
    stranger.silent = false;
  }
  if (now - stranger.heard_at < kIdleNs && now - stranger.came_at < kProofNs) return false;
  note(counters_.timed_out, "dropped", from, timeout_error("no proof in time"));
  return true;
}

/// A rank tries all addresses side by side and closes the connections that lose, wherever they have come to: nobody refused those.
void Root::depart(const Stranger& stranger, const Status& why, TimeNs now) {
  const wire::Handshake& handshake = stranger.handshake;
  const transport::Address from = stranger.stream->peer_address();
  const bool has_claimed = !handshake.failed() && handshake.peer().ranks > 0;
  if (!handshake.failed() && stranger.silent && handshake.wanted() == stranger.wanted) {
    ++counters_.withdrawn;
  } else if (has_claimed && departures_.size() < kMaxStrangers) {
    departures_.push_back(
        {.rank = handshake.peer().rank, .process = handshake.peer().process, .from = from, .why = why, .until = later(now, kWithdrawnNs)});
  } else {
    note(counters_.refused, "refused", from, why);
  }
}

/// Whose rank has come by another connection had withdrawn; who has not by `now` was refused.
void Root::judge_departures(TimeNs now) {
  std::erase_if(departures_, [&](const Departure& departure) {
    const auto rank = static_cast<size_t>(departure.rank);
    const bool has_won = rank < arrivals_.size() && arrivals_[rank].link && arrivals_[rank].process == departure.process;
    if (has_won) ++counters_.withdrawn;
    if (!has_won && now >= departure.until) note(counters_.refused, "refused", departure.from, departure.why);
    return has_won || now >= departure.until;
  });
}

// --- inside ----------------------------------------------------------------------------------------------------------------------

void Root::admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) {
  if (arrivals_.empty()) {
    arrivals_.resize(static_cast<size_t>(hello.ranks));
    give_up_at_ = later(now, options_.timeout_ns);
  }
  Link link(std::move(stream), kMaxBlobBytes);
  if (hello.ranks != static_cast<int32_t>(arrivals_.size())) {
    turn_away(
        std::move(link),
        fmt::format("rank {} was told that there are {} ranks, but those before it said {}", hello.rank, hello.ranks, arrivals_.size()),
        counters_.misfits, now);
    return;
  }
  Arrival& arrival = arrivals_[static_cast<size_t>(hello.rank)];
  if (arrival.link && arrival.process != hello.process) serve(arrival);  // is the first still there?
  if (arrival.link && arrival.process != hello.process) {
    turn_away(std::move(link),
              fmt::format("rank {} is taken by another process, at {}", hello.rank, transport::to_string(arrival.link->peer_address())),
              counters_.duplicates, now);
    return;
  }
  if (arrival.complete) --complete_;
  arrival = {.link = std::move(link), .process = hello.process, .blob = {}, .has_left = arrival.has_left};
  serve(arrival);
}

void Root::turn_away(Link link, std::string why, uint64_t& counter, TimeNs now) {
  const Status verdict = invalid_usage(std::move(why));
  if (worth_logging(++counter)) {
    surroundings_.log.warn("the root refuses {}: {}", transport::to_string(link.peer_address()), verdict.text());
  }
  link.send(type(RendezvousType::verdict), encode_verdict(verdict));
  if (link.flush().ok() && farewells_.size() < kMaxStrangers) farewells_.push_back({.link = std::move(link), .until = now + kFarewellNs});
}

void Root::serve_farewells(TimeNs now) {
  // Reads on, because closing while bytes of the peer are unread would take back what it was just told.
  std::erase_if(farewells_,
                [&](Farewell& farewell) { return now >= farewell.until || !farewell.link.flush().ok() || !farewell.link.receive().ok(); });
}

void Root::serve_arrivals(bool everybody) {
  for (Arrival& arrival : arrivals_)
    if (arrival.link && (everybody || !arrival.complete)) serve(arrival);
}

void Root::serve(Arrival& arrival) {
  Status broken = arrival.link->flush();
  while (broken.ok()) {
    const auto message = arrival.link->receive();
    if (!message.ok()) {
      broken = message.status();
    } else if (!message->has_value()) {
      return;
    } else if (arrival.complete || (*message)->type != type(RendezvousType::blob)) {
      return lose(arrival, remote_error("it sent something else than one blob"), counters_.malformed);
    } else {
      arrival.blob.assign((*message)->body.begin(), (*message)->body.end());
      arrival.complete = true;
      ++complete_;
    }
  }
  lose(arrival, broken, counters_.left);
}

void Root::lose(Arrival& arrival, const Status& why, uint64_t& counter) {
  note(counter, "lost a rank at", arrival.link->peer_address(), why);
  if (arrival.complete) --complete_;
  arrival = {.has_left = true};
}

// --- who is missing, and the end -------------------------------------------------------------------------------------------------

void Root::tell_who_is_missing() {
  if (arrivals_.empty()) return;
  std::vector<int32_t> missing;
  for (size_t rank = 0; rank < arrivals_.size(); ++rank)
    if (!arrivals_[rank].complete) missing.push_back(static_cast<int32_t>(rank));
  const Waiting waiting{.missing = static_cast<uint32_t>(missing.size()), .which = number_ranges(missing)};
  const auto body = std::make_shared<const std::vector<std::byte>>(encode(waiting));
  for (Arrival& arrival : arrivals_) {
    if (!arrival.link || arrival.link->unsent_bytes() > 0) continue;
    arrival.link->send(type(RendezvousType::waiting), body);
    if (const Status flushed = arrival.link->flush(); !flushed.ok()) lose(arrival, flushed, counters_.left);
  }
}

std::string Root::missing_text() const {
  std::vector<int32_t> missing, gone;
  for (size_t rank = 0; rank < arrivals_.size(); ++rank) {
    if (arrivals_[rank].complete) continue;
    missing.push_back(static_cast<int32_t>(rank));
    if (arrivals_[rank].has_left && !arrivals_[rank].link) gone.push_back(static_cast<int32_t>(rank));
  }
  std::string text = fmt::format("{} of {} ranks did not arrive within {}: {}", missing.size(), arrivals_.size(),
                                 duration_text(options_.timeout_ns), number_ranges(missing));
  if (!gone.empty()) text += fmt::format("; of these, {} came and went away again", number_ranges(gone));
  if (counters_.refused > 0) text += fmt::format("; {} connections were refused (NCCL_DEBUG=INFO tells why)", counters_.refused);
  return text += kSameIdQuestion;
}

Status Root::finish() {
  ISTHMUS_TRY(surroundings_.random(table_.session));
  for (size_t rank = 0; rank < arrivals_.size(); ++rank) {
    if (table_.hub_rank < 0 && arrivals_[rank].process == surroundings_.process) table_.hub_rank = static_cast<int32_t>(rank);
    table_.blobs.push_back(std::move(arrivals_[rank].blob));
  }
  const auto body = std::make_shared<const std::vector<std::byte>>(encode(table_));
  for (Arrival& arrival : arrivals_) {
    arrival.link->send(type(RendezvousType::table), body);
    if (!arrival.link->flush().ok()) arrival.link.reset();  // its rank is dead; the control plane says so to the others
  }
  listeners_.clear();
  judge_departures(kNever);
  strangers_.clear();
  farewells_.clear();
  finished_ = true;
  due_at_ = kNever;
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: all {} ranks have arrived", arrivals_.size());
  return {};
}

Status Root::give_up() {
  judge_departures(kNever);
  failure_ = timeout_error(missing_text());
  const auto body = std::make_shared<const std::vector<std::byte>>(encode_verdict(failure_));
  for (Arrival& arrival : arrivals_) {
    if (!arrival.link) continue;
    arrival.link->send(type(RendezvousType::verdict), body);
    if (!arrival.link->flush().ok()) arrival.link.reset();
  }
  listeners_.clear();
  return failure_;
}

void Root::note(uint64_t& counter, std::string_view what, const transport::Address& who, const Status& why) {
  if (!worth_logging(++counter)) return;
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: the root {} {}: {} ({} so far)", what, transport::to_string(who), why.text(),
                         counter);
}

}  // namespace isthmus::bootstrap
