// SPDX-License-Identifier: Apache-2.0
// Frames out of bytes. State is up to date before every callback, so that the owner may abandon the frame in it.
#include "transport/tcp/inlet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace isthmus::transport {

void Inlet::fail(const Status& why) {
  failed_ = true;
  context_.failures.push_back({.peer = peer_, .why = why});
}

bool Inlet::serve(TimeNs) {
  bool moved = false;
  for (uint64_t budget = TcpContext::kTurnBytes; readable_ && budget > 0 && !failed_;) {
    const std::span<std::byte> into = room();
    const Result<size_t> got = stream_->read(into);
    moved |= !got.ok() || *got > 0;
    if (!got.ok()) {
      const bool inside = header_got_ > 0 || left_ > 0;
      fail(inside ? got.status().with_context("in the middle of a frame") : got.status());
      break;
    }
    // A short read has emptied the stream; whatever comes later is a new event, except an end that was announced already.
    readable_ = *got == into.size() || hung_up_;
    budget -= std::min<uint64_t>(budget, *got);
    context_.counters.bytes_received += *got;
    const std::span<const std::byte> bytes = into.first(*got);
    if (into.data() == context_.scratch.data()) {
      consume(bytes);
    } else if (!bytes.empty()) {
      take_payload(bytes, true);
    }
    if (*got == 0) break;
  }
  return moved;
}

/// Large payloads are read to where they belong, everything else into memory that is shared by all streams.
std::span<std::byte> Inlet::room() {
  if (left_ < context_.scratch.size() || landing_.empty() || discard_) return context_.scratch;
  return landing_.subspan(offset_, std::min(left_, TcpContext::kTurnBytes));
}

void Inlet::consume(std::span<const std::byte> bytes) {
  while (!bytes.empty() && !failed_) {
    if (left_ == 0) {
      bytes = bytes.subspan(take_header(bytes));
      continue;
    }
    const std::span<const std::byte> piece = bytes.first(std::min<uint64_t>(left_, bytes.size()));
    bytes = bytes.subspan(piece.size());
    take_payload(piece, false);
  }
}

size_t Inlet::take_header(std::span<const std::byte> bytes) {
  const size_t taken = std::min(bytes.size(), header_bytes_.size() - header_got_);
  std::memcpy(header_bytes_.data() + header_got_, bytes.data(), taken);
  header_got_ += taken;
  if (header_got_ < header_bytes_.size()) return taken;
  header_got_ = 0;
  const Result<wire::FrameHeader> header = wire::decode_frame(header_bytes_, context_.options.max_payload_bytes);
  if (!header.ok()) {
    fail(header.status().with_context(to_string(stream_->peer_address())));
    return taken;
  }
  header_ = *header;
  begin_frame();
  return taken;
}

void Inlet::begin_frame() {
  ++context_.counters.frames_received;
  left_ = wire::payload_bytes(header_);
  offset_ = 0;
  discard_ = false;
  landing_ = {};
  const std::span<std::byte> landing = context_.sink.on_frame(peer_, header_);
  if (!landing.empty() && landing.size() < left_) {
    fail(internal_error(fmt::format("{} bytes of room for a frame of {}", landing.size(), left_)));
    return;
  }
  landing_ = landing;
}

void Inlet::take_payload(std::span<const std::byte> piece, bool in_place) {
  const uint64_t offset = offset_;
  offset_ += piece.size();
  left_ -= piece.size();
  if (discard_) return;
  if (landing_.empty()) return context_.sink.on_bytes(peer_, header_, offset, piece);
  if (!in_place) std::memcpy(landing_.data() + offset, piece.data(), piece.size());
  context_.sink.on_landed(peer_, header_, offset, piece.size());
}

void Inlet::abandon(uint64_t communicator, int32_t rank) {
  if (left_ > 0 && header_.communicator == communicator && header_.destination == rank) discard_ = true;
}

}  // namespace isthmus::transport
