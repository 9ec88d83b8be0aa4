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

constexpr TimeNs kVerdictNs = kSecondNs;          // past the deadline, for the root to say who was missing
constexpr TimeNs kTickNs = 250 * kMillisecondNs;  // deadlines are looked at so often

uint8_t type(RendezvousType value) { return static_cast<uint8_t>(value); }

wire::Hello hello_of(const UniqueId& id, const Member::Options& options, const transport::ProcessId& process) {
  return {.communicator = rendezvous_number(id),
          .rank = options.rank,
          .ranks = options.ranks,
          .purpose = wire::Purpose::rendezvous,
          .process = process};
}

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
      options_(std::move(options)),
      approach_(surroundings, id.roots, hello_of(id, options_, surroundings.process), rendezvous_key(surroundings.crypto, id), "root"),
      give_up_at_(later(now, options_.timeout_ns)),
      warn_at_(options_.warn_after_ns > 0 ? later(now, options_.warn_after_ns) : kNever),
      due_at_(now) {}

Result<bool> Member::poll(TimeNs now) {
  if (!failure_.ok()) return failure_;
  if (finished_) return true;
  if (!link_) {
    if (auto stream = approach_.poll(now)) join(std::move(stream));
  }
  if (link_) failure_ = converse(now);
  if (failure_.ok() && !finished_ && now >= later(give_up_at_, link_ ? kVerdictNs : 0))
    failure_ = timeout_error(what_is_missing(options_.timeout_ns));
  if (!failure_.ok()) return failure_;
  if (!finished_) warn_once(now);
  set_due(now);
  return finished_;
}

void Member::waits(std::vector<transport::Wait>& waits) const { link_ ? link_->waits(waits) : approach_.waits(waits); }

Link Member::take_link() {
  assert(finished_ && link_);
  Link link = std::move(*link_);
  link_.reset();
  return link;
}

void Member::join(std::unique_ptr<transport::Stream> stream) {
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: rank {} of {} has reached the root at {}", options_.rank, options_.ranks,
                         transport::to_string(stream->peer_address()));
  link_.emplace(std::move(stream), max_table_bytes(options_.ranks));
  link_->send(type(RendezvousType::blob), options_.blob);
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
  approach_.again(broken.with_context("the root was reached, but then"), now);
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
  return fmt::format("rank {} of {} could not reach the root within {}{}", options_.rank, options_.ranks, within, approach_.failures());
}

void Member::set_due(TimeNs now) {
  due_at_ = std::min({now + kTickNs, later(give_up_at_, link_ ? kVerdictNs : 0), warn_at_});
  if (finished_) due_at_ = kNever;
  if (!link_) due_at_ = std::min(due_at_, approach_.due());
}

}  // namespace isthmus::bootstrap
