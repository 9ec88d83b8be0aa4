// SPDX-License-Identifier: Apache-2.0
// approach.h.
#include "bootstrap/approach.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace isthmus::bootstrap {
namespace {

constexpr TimeNs kAttemptNs = 5 * kSecondNs;           // for connecting and proving, then again
constexpr TimeNs kFirstRetryNs = 20 * kMillisecondNs;  // doubled with each failure, up to
constexpr TimeNs kLongestRetryNs = kSecondNs;

}  // namespace

Approach::Approach(const Surroundings& surroundings, std::span<const transport::Address> to, const wire::Hello& mine, const Key& key,
                   std::string whom, const transport::StreamOptions& stream_options)
    : surroundings_(surroundings),
      mine_(mine),
      key_(key),
      whom_(std::move(whom)),
      stream_options_(stream_options),
      jitter_(hash_bytes(std::as_bytes(std::span(mine.process))), static_cast<uint64_t>(mine.rank)) {
  for (const transport::Address& address : to) {
    if (address.family == 0) continue;
    attempts_.emplace_back();
    attempts_.back().to = address;
  }
}

std::unique_ptr<transport::Stream> Approach::poll(TimeNs now) {
  for (Attempt& attempt : attempts_) {
    const auto proven = pursue(attempt, now);
    if (!proven.ok()) fail(attempt, proven.status(), now);
    if (!proven.ok() || !*proven) continue;
    auto stream = std::move(attempt.stream);
    for (Attempt& each : attempts_) {
      each.stream.reset();
      each.handshake.reset();
    }
    return stream;
  }
  return nullptr;
}

void Approach::again(const Status& why, TimeNs now) {
  for (Attempt& attempt : attempts_) fail(attempt, why, now);
}

void Approach::waits(std::vector<transport::Wait>& waits) const {
  for (const Attempt& attempt : attempts_)
    if (attempt.stream) add_wait(waits, attempt.stream->fd(), attempt.stream->wants_write());
}

TimeNs Approach::due() const {
  TimeNs due = kNever;
  for (const Attempt& attempt : attempts_)
    if (!attempt.stream) due = std::min(due, attempt.retry_at);
  return due;
}

std::string Approach::failures() const {
  std::string text;
  bool silent = false;
  for (const Attempt& attempt : attempts_) {
    text += fmt::format("; {}: {}", transport::to_string(attempt.to), attempt.last_error);
    silent = silent || attempt.last_error.starts_with("no answer");
  }
  if (silent) {
    text += fmt::format(
        "; without an answer the {}'s process is stopped, cannot be reached, or is short of descriptors (ulimit -n; its log says so)",
        whom_);
  }
  return text;
}

Result<bool> Approach::pursue(Attempt& attempt, TimeNs now) {
  if (!attempt.stream) {
    if (now < attempt.retry_at) return false;
    ISTHMUS_TRY(connect(attempt, now));
  }
  ISTHMUS_ASSIGN(const bool proven, advance(*attempt.handshake, *attempt.stream));
  if (proven && attempt.handshake->peer().rank != -1) return remote_error(fmt::format("it is a rank and not the {}", whom_));
  if (!proven && now >= attempt.give_up_at) return timeout_error(fmt::format("no answer within {}", duration_text(kAttemptNs)));
  return proven;
}

Status Approach::connect(Attempt& attempt, TimeNs now) {
  wire::Nonce nonce;
  ISTHMUS_TRY(surroundings_.random(nonce));
  ISTHMUS_ASSIGN(attempt.stream, surroundings_.network.connect(attempt.to, stream_options_));
  attempt.handshake = wire::Handshake::initiate(surroundings_.crypto, mine_, key_, nonce);
  attempt.give_up_at = now + kAttemptNs;
  return {};
}

void Approach::fail(Attempt& attempt, const Status& why, TimeNs now) {
  attempt.stream.reset();
  attempt.handshake.reset();
  attempt.last_error = why.text();
  const TimeNs pause = std::min(kLongestRetryNs, kFirstRetryNs << std::min(attempt.failures++, 10));
  attempt.retry_at = now + pause / 2 + static_cast<TimeNs>(jitter_.below(static_cast<uint64_t>(pause)));
}

}  // namespace isthmus::bootstrap
