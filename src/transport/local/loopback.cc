// SPDX-License-Identifier: Apache-2.0
// Loopback's queue and delivery. Called by exec's progress; see the header for what can fail.
#include "transport/local/loopback.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/core.h>

namespace isthmus::transport {
namespace {

// Landed bytes are announced in pieces that still lie in the cache when the receiver applies them.
constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

Status Loopback::add_peer(PeerId peer, const PeerInfo&) {
  if (known_ && peer != self_)
    return internal_error(fmt::format("loopback: this process is already peer {}, so it cannot be peer {} as well", self_, peer));
  self_ = peer;
  known_ = true;
  return {};
}

Status Loopback::send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) {
  if (!known_ || peer != self_) return internal_error(fmt::format("loopback: peer {} is not this process", peer));
  queue_.push({.header = header, .payload = payload, .token = token});
  return {};
}

bool Loopback::offer(PeerId, std::span<const std::byte> memory, wire::RemoteSpan& remote) {
  remote = {.address = reinterpret_cast<uintptr_t>(memory.data()), .bytes = memory.size()};
  return true;
}

Result<std::span<const std::byte>> Loopback::view(PeerId, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                                  std::span<std::byte>) {
  if (offset > remote.bytes || bytes > remote.bytes - offset)
    return internal_error(fmt::format("loopback: {} bytes at {} of an offer of {} bytes", bytes, offset, remote.bytes));
  return std::span(reinterpret_cast<const std::byte*>(remote.address) + offset, bytes);
}

bool Loopback::poll(TimeNs) {
  const size_t queued = queue_.size();  // what callbacks add waits for the next poll, so that other transports get their turn
  for (size_t i = 0; i < queued && !queue_.empty(); ++i) {
    Queued frame = queue_.pop();
    delivering_ = &frame;
    deliver(frame);
    delivering_ = nullptr;
  }
  return queued > 0;
}

void Loopback::deliver(Queued& frame) {
  const std::span<std::byte> landing = sink_.on_frame(self_, frame.header);
  const size_t bytes = frame.payload.size();
  if (landing.empty() && bytes > 0 && !frame.abandoned) sink_.on_bytes(self_, frame.header, 0, frame.payload);
  if (!landing.empty()) {
    assert(landing.size() >= bytes);
    for (size_t offset = 0; offset < bytes && !frame.abandoned; offset += kPieceBytes) {
      const size_t piece = std::min(kPieceBytes, bytes - offset);
      std::memmove(landing.data() + offset, frame.payload.data() + offset, piece);
      sink_.on_landed(self_, frame.header, offset, piece);
    }
  }
  if (frame.token != kNoToken) sink_.on_sent(frame.token);
}

void Loopback::abandon(uint64_t communicator, int32_t rank) {
  if (delivering_ != nullptr && delivering_->header.communicator == communicator) {
    const wire::FrameHeader& header = delivering_->header;
    delivering_->abandoned = delivering_->abandoned || header.source == rank || header.destination == rank;
    if (header.source == rank) delivering_->token = kNoToken;
  }
  for (size_t queued = queue_.size(); queued > 0; --queued) {
    const Queued frame = queue_.pop();
    const bool concerned = frame.header.communicator == communicator && frame.header.source == rank;
    if (!concerned || is_word(frame.payload, frame.token)) queue_.push(frame);
  }
}

bool Loopback::arm(std::vector<Wait>&) { return queue_.empty(); }

}  // namespace isthmus::transport
