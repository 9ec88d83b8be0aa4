// SPDX-License-Identifier: Apache-2.0
// reception.h.
#include "bootstrap/reception.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::bootstrap {
namespace {

constexpr int kAcceptedAtOnce = 64;
constexpr TimeNs kIdleNs = 2 * kSecondNs;                // a stranger that makes no progress for so long is dropped
constexpr TimeNs kProofNs = 10 * kSecondNs;              // and so is one that is merely slow
constexpr TimeNs kUndisturbedNs = 100 * kMillisecondNs;  // not even a silent one is evicted sooner
constexpr TimeNs kFarewellNs = 2 * kSecondNs;            // for a refused peer to read why
constexpr TimeNs kBackOffNs = 100 * kMillisecondNs;      // after the system refused to accept (no descriptors, no memory)
constexpr TimeNs kWithdrawnNs = kSecondNs;               // for a rank's connection that won, after one that lost has closed

}  // namespace

Status Reception::open(std::span<const transport::Address> listen_at, size_t most) {
  Status last = invalid_argument(name_ + " has no address to listen at");
  for (const transport::Address& address : listen_at) {
    if (address.family == 0) continue;
    if (listeners_.size() == most) break;
    auto listener = surroundings_.network.listen(address);
    if (!listener.ok()) {
      last = listener.status();
      continue;
    }
    surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: {} listens at {}", name_, transport::to_string((*listener)->address()));
    listeners_.push_back(std::move(*listener));
  }
  return listeners_.empty() ? last : Status();
}

std::vector<transport::Address> Reception::addresses() const {
  std::vector<transport::Address> addresses;
  addresses.reserve(listeners_.size());
  for (const auto& listener : listeners_) addresses.push_back(listener->address());
  return addresses;
}

void Reception::poll(TimeNs now) {
  accept(now);
  std::erase_if(strangers_, [&](Stranger& stranger) { return serve(stranger, now); });
  judge_departures(now);
}

void Reception::waits(std::vector<transport::Wait>& waits) const {
  if (strangers_.size() < kMaxStrangers) {  // else the listeners stay ready and would keep the driver awake
    for (const auto& listener : listeners_) add_wait(waits, listener->fd(), false);
  }
  for (const Stranger& stranger : strangers_) add_wait(waits, stranger.stream->fd(), stranger.stream->wants_write());
}

void Reception::close() {
  listeners_.clear();
  judge_departures(kNever);
  strangers_.clear();
}

void Reception::accept(TimeNs now) {
  if (now < accept_again_at_) return;
  for (const auto& listener : listeners_) {
    for (int i = 0; i < kAcceptedAtOnce && make_room(now); ++i) {
      auto stream = listener->accept();
      if (stream.ok() && *stream == nullptr) break;
      const Status status = stream.ok() ? receive(std::move(*stream), now) : stream.status();
      if (status.ok()) continue;
      last_unaccepted_ = status.text();
      if (worth_logging(++counters_.unaccepted)) {
        surroundings_.log.warn("{} cannot accept connections at {} just now: {} ({} times so far)", name_,
                               transport::to_string(listener->address()), status.text(), counters_.unaccepted);
      }
      accept_again_at_ = now + kBackOffNs;
      return;
    }
  }
}

/// True if one more stranger fits, for which the oldest that never said anything may have to go.
bool Reception::make_room(TimeNs now) {
  if (strangers_.size() < kMaxStrangers) return true;
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(), [](const Stranger& stranger) { return stranger.silent; });
  if (oldest == strangers_.end() || now - oldest->came_at < kUndisturbedNs) return false;
  note(counters_.evicted, "dropped", oldest->stream->peer_address(), remote_error("silent, and its place was needed"));
  strangers_.erase(oldest);
  return true;
}

Status Reception::receive(std::unique_ptr<transport::Stream> stream, TimeNs now) {
  wire::Nonce nonce;
  ISTHMUS_TRY(surroundings_.random(nonce));
  const wire::Hello mine{.rank = -1, .process = surroundings_.process};
  auto handshake = wire::Handshake::respond(
      surroundings_.crypto, mine, [this](const wire::Hello& claim) { return host_.key_for(claim); }, nonce);
  const size_t wanted = handshake.wanted();
  ++counters_.accepted;
  strangers_.push_back({.stream = std::move(stream), .handshake = std::move(handshake), .came_at = now, .heard_at = now, .wanted = wanted});
  return {};
}

bool Reception::serve(Stranger& stranger, TimeNs now) {
  const transport::Address from = stranger.stream->peer_address();
  const auto proven = advance(stranger.handshake, *stranger.stream);
  if (!proven.ok()) {
    depart(stranger, proven.status(), now);
    return true;
  }
  if (*proven) {
    host_.admit(stranger.handshake.peer(), std::move(stranger.stream), now);
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
void Reception::depart(const Stranger& stranger, const Status& why, TimeNs now) {
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
void Reception::judge_departures(TimeNs now) {
  std::erase_if(departures_, [&](const Departure& departure) {
    const bool has_won = host_.has_come(departure.rank, departure.process);
    if (has_won) ++counters_.withdrawn;
    if (!has_won && now >= departure.until) note(counters_.refused, "refused", departure.from, departure.why);
    return has_won || now >= departure.until;
  });
}

void Reception::note(uint64_t& counter, std::string_view what, const transport::Address& who, const Status& why) const {
  if (!worth_logging(++counter)) return;
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: {} {} {}: {} ({} so far)", name_, what, transport::to_string(who), why.text(),
                         counter);
}

void Farewells::add(Link link, TimeNs now) {
  if (link.flush().ok() && links_.size() < Reception::kMaxStrangers)
    links_.push_back({.link = std::move(link), .until = now + kFarewellNs});
}

void Farewells::poll(TimeNs now) {
  // Reads on, because closing while bytes of the peer are unread would take back what it was just told.
  std::erase_if(links_,
                [&](Leaving& leaving) { return now >= leaving.until || !leaving.link.flush().ok() || !leaving.link.receive().ok(); });
}

void Farewells::waits(std::vector<transport::Wait>& waits) const {
  for (const Leaving& leaving : links_) leaving.link.waits(waits);
}

}  // namespace isthmus::bootstrap
