// SPDX-License-Identifier: Apache-2.0
// door.h.
#include "cli/federated/run/door.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "federated/aggregate_messages.h"

namespace isthmus::cli {
namespace {

constexpr int kMessagesAtOnce = 8;
constexpr TimeNs kBeatNs = 5 * kSecondNs;
constexpr TimeNs kJoinNs = 10 * kSecondNs;   // from proof to join message
constexpr TimeNs kTakesNs = 30 * kSecondNs;  // for a member to take something of what it is sent

}  // namespace

uint64_t run_number() { return hash_text("isthmus federated run"); }

Key run_key(const Crypto& crypto, const Key& key) { return derive_key(crypto, key, "isthmus federated run"); }

Result<std::unique_ptr<Door>> Door::open(const bootstrap::Surroundings& surroundings, const Key& key, uint32_t members, size_t most_bytes,
                                         std::span<const transport::Address> listen_at) {
  std::unique_ptr<Door> door(new Door(surroundings, key, members, most_bytes));
  ISTHMUS_TRY(door->reception_.open(listen_at, bootstrap::UniqueId::kRoots));
  return door;
}

std::vector<Door::Event> Door::poll(TimeNs now) {
  due_at_ = now + kBeatNs;
  reception_.poll(now);
  farewells_.poll(now);
  for (uint32_t member = 0; member < seats_.size(); ++member) hear(member, now);
  for (uint32_t member = 0; member < seats_.size(); ++member) {
    if (!seats_[member].link) continue;
    if (const Status kept = keep(member, now); !kept.ok()) lose(member, kept.text());
  }
  if (reception_.busy() || !farewells_.empty()) due_at_ = std::min(due_at_, now + bootstrap::Reception::kBusyTickNs);
  return std::exchange(events_, {});
}

void Door::waits(std::vector<transport::Wait>& waits) const {
  reception_.waits(waits);
  farewells_.waits(waits);
  for (const Seat& seat : seats_)
    if (seat.link) seat.link->waits(waits);
}

void Door::say(uint32_t member, RunType type, const bootstrap::SharedBytes& body) {
  if (!here_[member]) return;
  seats_[member].link->send(static_cast<uint8_t>(type), body);
  due_at_ = 0;
}

void Door::say_to_all(RunType type, const bootstrap::SharedBytes& body) {
  for (uint32_t member = 0; member < seats_.size(); ++member) say(member, type, body);
}

bool Door::has_said_all() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return !seat.link || seat.link->unsent_bytes() == 0; });
}

Door::Counters Door::counters() const {
  Counters counters = counters_;
  static_cast<bootstrap::Reception::Counters&>(counters) = reception_.counters();
  return counters;
}

// --- who comes -------------------------------------------------------------------------------------------------------------------

wire::Handshake::KeyAnswer Door::key_for(const wire::Hello& claim) const {
  const bool plausible = claim.communicator == run_number() && claim.purpose == wire::Purpose::aggregate && claim.epoch == 0 &&
                         claim.rank >= 0 && claim.rank < claim.ranks;
  return {.key = plausible ? &key_ : nullptr};
}

bool Door::has_come(int32_t rank, const transport::ProcessId& process) const {
  const auto at = static_cast<size_t>(rank);
  return at < seats_.size() && seats_[at].link && seats_[at].process == process;
}

void Door::admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) {
  bootstrap::Link link(std::move(stream), kMaxRunJoinBytes);
  const auto member = static_cast<uint32_t>(hello.rank);
  if (member >= seats_.size()) {
    return dismiss(std::move(link),
                   invalid_usage(fmt::format("there is no member {}: they have the numbers 0 to {}", member, seats_.size() - 1)), now);
  }
  if (seats_[member].link && seats_[member].process != hello.process) hear(member, now);  // is the first still there?
  Seat& seat = seats_[member];
  if (seat.link && seat.process != hello.process) {
    const std::string holder = transport::to_string(seat.link->peer_address());
    return dismiss(std::move(link), remote_error(fmt::format("member {} is here already, at {}", member, holder)), now);
  }
  if (seat.link) lose(member, "came again by another connection");
  seat.link = std::move(link);
  seat.process = hello.process;
  seat.came_at = seat.moved_at = seat.beat_at = now;
  seat.unsent_bytes = 0;
}

void Door::dismiss(bootstrap::Link link, const Status& why, TimeNs now) {
  ++counters_.turned_away;
  link.send(static_cast<uint8_t>(RunType::refusal), federated::encode_refusal(why));
  farewells_.add(std::move(link), now);
}

void Door::turn_away(uint32_t member, const std::string& why, TimeNs now) {
  Seat& seat = seats_[member];
  if (!seat.link) return;
  bootstrap::Link link = std::move(*seat.link);
  seat.link.reset();
  here_.reset(member);
  dismiss(std::move(link), invalid_usage(why), now);
}

// --- what they say ---------------------------------------------------------------------------------------------------------------

void Door::hear(uint32_t member, TimeNs now) {
  for (int turn = 0; seats_[member].link; ++turn) {
    if (turn == kMessagesAtOnce) {
      due_at_ = now;
      return;
    }
    const auto message = seats_[member].link->receive();
    if (!message.ok()) return lose(member, message.status().text());
    if (!message->has_value()) return;
    if (const Status status = on_message(member, **message); !status.ok()) return lose(member, status.text());
  }
}

Status Door::on_message(uint32_t member, const bootstrap::Message& message) {
  const auto type = static_cast<RunType>(message.type);
  const bool joins = type == RunType::join;
  if (type == RunType::leave && here_[member]) {
    lose(member, "has left");
    return {};
  }
  if (joins == here_[member] || type > RunType::result)
    return remote_error(fmt::format("it sends a message of type {}, which is not for now", message.type));
  if (joins) {
    here_.set(member);
    ++counters_.joined;
    seats_[member].link->set_max_body_bytes(most_bytes_);
  }
  events_.push_back({.kind = joins ? Event::Kind::joined : Event::Kind::said,
                     .member = member,
                     .type = type,
                     .body = {message.body.begin(), message.body.end()},
                     .why = {}});
  return {};
}

/// Sends what there is, and sees to it that the way stays open.
Status Door::keep(uint32_t member, TimeNs now) {
  Seat& seat = seats_[member];
  if (here_[member] && now >= seat.beat_at + kBeatNs) {
    seat.link->send(static_cast<uint8_t>(RunType::beat), std::span<const std::byte>());
    seat.beat_at = now;
  }
  ISTHMUS_TRY(seat.link->flush());
  const size_t unsent = seat.link->unsent_bytes();
  if (unsent == 0 || unsent != seat.unsent_bytes) seat.moved_at = now;
  seat.unsent_bytes = unsent;
  if (!here_[member] && now >= seat.came_at + kJoinNs) return timeout_error("it proved itself, but does not say what it wants");
  if (now >= seat.moved_at + kTakesNs) return timeout_error(fmt::format("it has taken nothing for {}", duration_text(kTakesNs)));
  return {};
}

void Door::lose(uint32_t member, const std::string& why) {
  Seat& seat = seats_[member];
  seat.link.reset();
  if (!here_[member]) return;
  here_.reset(member);
  ++counters_.lost;
  events_.push_back({.kind = Event::Kind::gone, .member = member, .type = RunType::leave, .body = {}, .why = why});
}

}  // namespace isthmus::cli
