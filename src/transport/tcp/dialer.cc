// SPDX-License-Identifier: Apache-2.0
// Attempts and pauses of one dialer. Every error of an attempt is kept as the cause; only the deadline ends the dialing.
#include "transport/tcp/dialer.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::transport {

namespace {
constexpr TimeNs kConnectNs = 3 * kSecondNs;  // an address that does not answer within it gives way to the next one
constexpr TimeNs kFirstPauseNs = 20 * kMillisecondNs;
constexpr TimeNs kLongestPauseNs = kSecondNs;
}  // namespace

Dialer::Dialer(TcpContext& context, std::vector<Address> addresses, const wire::Hello& hello, const ProcessId& peer, const Key& key)
    : context_(context), addresses_(std::move(addresses)), hello_(hello), peer_(peer), key_(key), pause_ns_(kFirstPauseNs) {}

Status Dialer::poll(TimeNs now) {
  if (deadline_ == kNever) deadline_ = now + context_.options.setup_timeout_ns;
  if (done() && greeting_->peer().process == peer_) return {};
  if (greeting_ != nullptr) {
    if (const Status why = trouble(now); !why.ok()) end_attempt(now, why);
  }
  if (now >= deadline_) {
    std::string tried;
    for (const Address& address : addresses_) tried.append(" ").append(to_string(address));
    return remote_error(fmt::format("no connection within {} s (tried{}): {}", context_.options.setup_timeout_ns / kSecondNs, tried,
                                    last_failure_.ok() ? "no answer" : last_failure_.text()));
  }
  if (greeting_ == nullptr && now >= next_attempt_at_) {
    if (const Status started = start(now); !started.ok()) end_attempt(now, started);
  }
  return {};
}

Status Dialer::start(TimeNs now) {
  const Address& to = addresses_[attempts_ % addresses_.size()];
  wire::Nonce nonce;
  ISTHMUS_TRY(random_bytes(nonce));
  ISTHMUS_ASSIGN(auto stream, context_.network.connect(to, context_.options.stream));
  const int fd = stream->fd();
  greeting_ = std::make_unique<Greeting>(std::move(stream), wire::Handshake::initiate(context_.crypto, hello_, key_, nonce), now);
  return context_.readiness.watch(*greeting_, fd);
}

Status Dialer::trouble(TimeNs now) const {
  if (!greeting_->failure().ok()) {
    return greeting_->connected() ? greeting_->failure().with_context("handshake") : greeting_->failure();
  }
  if (greeting_->done()) return remote_error(fmt::format("another process of the job answers at {}", to_string(greeting_->peer_address())));
  if (!greeting_->connected() && now - greeting_->began_at() > kConnectNs) {
    return remote_error(fmt::format("connect to {}: no answer", to_string(greeting_->peer_address())));
  }
  return {};
}

void Dialer::end_attempt(TimeNs now, const Status& why) {
  last_failure_ = why;
  greeting_.reset();
  ++attempts_;
  if (attempts_ % addresses_.size() != 0) return;
  next_attempt_at_ = now + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
}

std::unique_ptr<Stream> Dialer::take() {
  context_.readiness.forget(*greeting_);
  return greeting_->take();
}

}  // namespace isthmus::transport
