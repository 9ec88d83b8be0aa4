// SPDX-License-Identifier: Apache-2.0
// Member of rendezvous.h: reach the root by any of its addresses, hand over the blob, wait for the table.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/hash.h"
#include "base/text.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_messages.h"

namespace isthmus::bootstrap {
namespace {

constexpr TimeNs kAttemptNs = 5 * kSecondNs;           // for connecting and proving, then again
constexpr TimeNs kFirstRetryNs = 20 * kMillisecondNs;  // doubled with each failure, up to
constexpr TimeNs kLongestRetryNs = kSecondNs;
constexpr TimeNs kVerdictNs = kSecondNs;          // past the deadline, for the root to say who was missing
constexpr TimeNs kTickNs = 250 * kMillisecondNs;  // deadlines are looked at so often

uint8_t type(RendezvousType value) { return static_cast<uint8_t>(value); }

}  // namespace

Result<std::unique_ptr<Member>> Member::start(const Surroundings& surroundings, const UniqueId& id, Options options, TimeNs now) {
  if (options.ranks < 1 || options.ranks > kMaxRanks || options.rank < 0 || options.rank >= options.ranks) {
    return invalid_argument(
        fmt::format("rank {} of {} ranks: there are 1 to {} ranks, numbered from 0", options.rank, options.ranks, kMaxRanks));
  }
  if (options.blob.size() > kMaxBlobBytes) {
    return invalid_argument(fmt::format("a rank's description of {} bytes exceeds {}", options.blob.size(), kMaxBlobBytes));
  }
  return std::unique_ptr<Member>(new Member(surroundings, id, std::move(options), now));
}

Member::Member(const Surroundings& surroundings, const UniqueId& id, Options options, TimeNs now)
    : surroundings_(surroundings),
      id_(id),
      options_(std::move(options)),
      key_(rendezvous_key(surroundings.crypto, id)),
      jitter_(hash_bytes(std::as_bytes(std::span(surroundings.process))), static_cast<uint64_t>(options_.rank)),
      give_up_at_(later(now, options_.timeout_ns)),
      warn_at_(options_.warn_after_ns > 0 ? later(now, options_.warn_after_ns) : kNever),
      due_at_(now) {
  for (const transport::Address& root : id_.roots) {
    if (root.family == 0) continue;
    attempts_.emplace_back();
    attempts_.back().to = root;
  }
}

Result<bool> Member::poll(TimeNs now) {
  if (!failure_.ok()) return failure_;
  if (finished_) return true;
  if (!link_) try_addresses(now);
  if (link_) failure_ = converse(now);
  if (failure_.ok() && !finished_ && now >= later(give_up_at_, link_ ? kVerdictNs : 0))
    failure_ = timeout_error(what_is_missing(options_.timeout_ns));
  if (!failure_.ok()) return failure_;
  if (!finished_) warn_once(now);
  set_due(now);
  return finished_;
}

void Member::waits(std::vector<transport::Wait>& waits) const {
  if (link_) return link_->waits(waits);
  for (const Attempt& attempt : attempts_)
    if (attempt.stream) add_wait(waits, attempt.stream->fd(), attempt.stream->wants_write());
}

Link Member::take_link() {
  assert(finished_ && link_);
  Link link = std::move(*link_);
  link_.reset();
  return link;
}

// --- reaching the root -----------------------------------------------------------------------------------------------------------

void Member::try_addresses(TimeNs now) {
  for (Attempt& attempt : attempts_) {
    const auto proven = pursue(attempt, now);
    if (!proven.ok()) fail(attempt, proven.status(), now);
    if (proven.ok() && *proven) return join(attempt);
  }
}

Result<bool> Member::pursue(Attempt& attempt, TimeNs now) {
  if (!attempt.stream) {
    if (now < attempt.retry_at) return false;
    ISTHMUS_TRY(connect(attempt, now));
  }
  ISTHMUS_ASSIGN(const bool proven, advance(*attempt.handshake, *attempt.stream));
  if (proven && attempt.handshake->peer().rank != -1) return remote_error("it is a rank and not the root");
  if (!proven && now >= attempt.give_up_at) return timeout_error(fmt::format("no answer within {}", duration_text(kAttemptNs)));
  return proven;
}

Status Member::connect(Attempt& attempt, TimeNs now) {
  wire::Nonce nonce;
  ISTHMUS_TRY(surroundings_.random(nonce));
  ISTHMUS_ASSIGN(attempt.stream, surroundings_.network.connect(attempt.to, {}));
  const wire::Hello mine{.communicator = rendezvous_number(id_),
                         .rank = options_.rank,
                         .ranks = options_.ranks,
                         .purpose = wire::Purpose::rendezvous,
                         .process = surroundings_.process};
  attempt.handshake = wire::Handshake::initiate(surroundings_.crypto, mine, key_, nonce);
  attempt.give_up_at = now + kAttemptNs;
  return {};
}

void Member::fail(Attempt& attempt, const Status& why, TimeNs now) {
  attempt.stream.reset();
  attempt.handshake.reset();
  attempt.last_error = why.text();
  const TimeNs pause = std::min(kLongestRetryNs, kFirstRetryNs << std::min(attempt.failures++, 10));
  attempt.retry_at = now + pause / 2 + static_cast<TimeNs>(jitter_.below(static_cast<uint64_t>(pause)));
}

void Member::join(Attempt& attempt) {
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: rank {} of {} has reached the root at {}", options_.rank, options_.ranks,
                         transport::to_string(attempt.to));
  link_.emplace(std::move(attempt.stream), max_table_bytes(options_.ranks));
  link_->send(type(RendezvousType::blob), options_.blob);
  for (Attempt& each : attempts_) {
    each.stream.reset();
    each.handshake.reset();
  }
}

// --- with the root ---------------------------------------------------------------------------------------------------------------

Status Member::converse(TimeNs now) {
  Status broken = link_->flush();
  while (broken.ok() && !finished_) {
    const auto message = link_->receive();
    if (!message.ok()) {
      broken = message.status();
    } else if (message->has_value()) {
      ISTHMUS_TRY(on_message(**message));
    } else {
      return {};
    }
  }
  if (finished_) return {};
  link_.reset();  // a broken link is no verdict: try again until the deadline
  missing_ = {};
  for (Attempt& attempt : attempts_) fail(attempt, broken.with_context("the root was reached, but then"), now);
  return {};
}

Status Member::on_message(const Message& message) {
  switch (static_cast<RendezvousType>(message.type)) {
    case RendezvousType::waiting: {
      ISTHMUS_ASSIGN(missing_, decode_waiting(message.body));
      return {};
    }
    case RendezvousType::table: {
      ISTHMUS_ASSIGN(table_, decode_table(message.body, options_.ranks));
      finished_ = true;
      return {};
    }
    case RendezvousType::verdict:
      return decode_verdict(message.body);
    case RendezvousType::blob:
      break;
  }
  return remote_error(fmt::format("the root sent a message of unknown type {}", message.type));
}

void Member::warn_once(TimeNs now) {
  if (now < warn_at_) return;
  warn_at_ = kNever;
  surroundings_.log.warn("rank {} of {} still waits for the communicator to form: {}", options_.rank, options_.ranks,
                         what_is_missing(options_.warn_after_ns));
}

std::string Member::what_is_missing(TimeNs waited) const {
  const std::string within = duration_text(waited);
  if (link_ && missing_.missing > 0) {
    return fmt::format("{} of {} ranks did not arrive within {}: {}{}", missing_.missing, options_.ranks, within, missing_.which,
                       kSameIdQuestion);
  }
  if (link_)
    return fmt::format("the root at {} was reached but has not answered within {}", transport::to_string(link_->peer_address()), within);
  std::string text = fmt::format("rank {} of {} could not reach the root within {}", options_.rank, options_.ranks, within);
  bool silent = false;
  for (const Attempt& attempt : attempts_) {
    text += fmt::format("; {}: {}", transport::to_string(attempt.to), attempt.last_error);
    silent = silent || attempt.last_error.starts_with("no answer");
  }
  if (silent)
    text += "; without an answer the root's process is stopped, cannot be reached, or is short of descriptors (ulimit -n; its log says so)";
  return text;
}

void Member::set_due(TimeNs now) {
  due_at_ = std::min({now + kTickNs, later(give_up_at_, link_ ? kVerdictNs : 0), warn_at_});
  if (finished_) due_at_ = kNever;
  if (link_) return;
  for (const Attempt& attempt : attempts_)
    if (!attempt.stream) due_at_ = std::min(due_at_, attempt.retry_at);
}

}  // namespace isthmus::bootstrap
