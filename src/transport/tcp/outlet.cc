// SPDX-License-Identifier: Apache-2.0
// Gathering and writing frames. Callbacks (on_sent) come last in every step, so that the owner may queue or abandon frames in them.
#include "transport/tcp/outlet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace isthmus::transport {

namespace {

constexpr size_t kCopiedBytes = 4 << 10;  // payloads up to this are copied: one system call takes many of them
constexpr size_t kStageBytes = 32 << 10;
constexpr std::array<std::byte, 64 << 10> kZeros{};

}  // namespace

void Outlet::push(const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) {
  if (header.type != wire::FrameType::data && is_word(payload, token)) return urgent_.push(header);
  queue_.push({.header = header, .payload = payload, .token = token});
}

Status Outlet::open(std::unique_ptr<Stream> stream) {
  stream_ = std::move(stream);
  return context_.readiness.watch(*this, stream_->fd());
}

void Outlet::fail(const Status& why) {
  failed_ = true;
  context_.failures.push_back({.peer = peer_, .why = why});
}

bool Outlet::ready() const { return !failed_ && (readable_ || (writable_ && busy())); }

bool Outlet::serve(TimeNs) {
  if (failed_ || !is_open()) return false;
  bool moved = readable_ && expect_nothing();
  for (uint64_t budget = TcpContext::kTurnBytes; writable_ && budget > 0 && !failed_;) {
    gather();
    if (!busy()) break;
    moved |= write_some(budget);
  }
  return moved;
}

bool Outlet::expect_nothing() {
  std::array<std::byte, 1> unexpected;
  const Result<size_t> got = stream_->read(unexpected);
  readable_ = false;
  if (got.ok() && *got == 0) return false;
  fail(got.ok() ? remote_error(fmt::format("{} sent bytes on a stream that is ours to send on", to_string(stream_->peer_address())))
                : got.status());
  return true;
}

bool Outlet::write_some(uint64_t& budget) {
  const std::span<const std::byte> small = std::span(stage_).subspan(stage_sent_);
  const std::span<const std::byte> large = body_piece(budget);
  const Result<size_t> accepted = small.empty() ? stream_->write(large) : stream_->write2(small, large);
  if (!accepted.ok()) {
    fail(accepted.status());
    return true;
  }
  writable_ = *accepted == small.size() + large.size();
  budget -= std::min<uint64_t>(budget, *accepted);
  context_.counters.bytes_sent += *accepted;
  took(*accepted);
  return *accepted > 0;
}

/// Moves frames to the stage until it is full or a large payload has to go out first.
void Outlet::gather() {
  while (body_.left == 0 && stage_.size() < kStageBytes) {
    if (!urgent_.empty()) {
      stage({.header = urgent_.pop(), .payload = {}});
    } else if (!queue_.empty()) {
      stage(queue_.pop());
    } else {
      return;
    }
  }
}

void Outlet::stage(const Frame& frame) {
  ++context_.counters.frames_sent;
  const size_t at = stage_.size();
  stage_.resize(at + wire::FrameHeader::kBytes);
  wire::encode(frame.header, std::span<std::byte, wire::FrameHeader::kBytes>(stage_.data() + at, wire::FrameHeader::kBytes));
  if (frame.payload.size() <= kCopiedBytes) {
    stage_.insert(stage_.end(), frame.payload.begin(), frame.payload.end());
    finish(frame.token);
  } else {
    body_ = {.data = frame.payload.data(),
             .left = frame.payload.size(),
             .token = frame.token,
             .communicator = frame.header.communicator,
             .source = frame.header.source};
  }
}

std::span<const std::byte> Outlet::body_piece(uint64_t limit) const {
  if (body_.data == nullptr) return std::span(kZeros).first(std::min<uint64_t>({body_.left, limit, kZeros.size()}));
  return {body_.data, std::min(body_.left, limit)};
}

void Outlet::took(size_t bytes) {
  const size_t from_stage = std::min(bytes, staged());
  stage_sent_ += from_stage;
  if (staged() == 0) {
    stage_.clear();
    stage_sent_ = 0;
  }
  const size_t from_body = bytes - from_stage;
  if (from_body == 0) return;
  if (body_.data != nullptr) body_.data += from_body;
  body_.left -= from_body;
  if (body_.left == 0) finish(std::exchange(body_, {}).token);
}

void Outlet::finish(SendToken token) {
  if (token != kNoToken) context_.sink.on_sent(token);
}

void Outlet::abandon(uint64_t communicator, int32_t rank) {
  for (size_t queued = queue_.size(); queued > 0; --queued) {
    const Frame frame = queue_.pop();
    if (frame.header.communicator != communicator || frame.header.source != rank) queue_.push(frame);
  }  // what is urgent has no memory
  if (body_.left > 0 && body_.communicator == communicator && body_.source == rank) {
    body_.data = nullptr;
    body_.token = kNoToken;
  }
}

void Outlet::close() {
  context_.readiness.forget(*this);
  stream_.reset();
  queue_.clear();
  urgent_.clear();
  stage_.clear();
  stage_sent_ = 0;
  body_ = {};
}

}  // namespace isthmus::transport
