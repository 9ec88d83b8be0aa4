// SPDX-License-Identifier: Apache-2.0
// ShmChannel's two directions. The fast path is send() with an empty queue and receive() of a frame that fits into one record.
#include "transport/local/shm_channel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace isthmus::transport {
namespace {

constexpr uint64_t kPieceBytes = ShmChannel::kPieceBytes;
static_assert(kPieceBytes <= ring::most_payload(RingPair::kLeastBytes));

// Stands for payload that may not be read any more.
constexpr std::array<std::byte, kPieceBytes> kZeros{};

}  // namespace

void ShmChannel::open(RingPair rings, bool creator, Fd doorbell) {
  rings_ = std::move(rings);
  doorbell_ = std::move(doorbell);
  const Ring outgoing = rings_.direction(creator ? 0 : 1);
  writer_ = RingWriter(outgoing);
  reader_ = RingReader(rings_.direction(creator ? 1 : 0));
  ring_bytes_ = outgoing.bytes;
  open_ = true;
}

void ShmChannel::close() {
  open_ = false;
  queue_.clear();
  rings_ = RingPair();
  doorbell_.reset();
}

void ShmChannel::send(const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) {
  assert(payload.size() == wire::payload_bytes(header));
  Outgoing frame{.header = header, .payload = payload, .token = token};
  if (open_ && queue_.empty() && write(frame)) {
    if (token != kNoToken) sink_.on_sent(token);
    return;
  }
  queue_.push(frame);
}

bool ShmChannel::try_send(const wire::FrameHeader& header, std::span<const std::byte> payload) {
  if (!open_ || !queue_.empty() || payload.size() > kPieceBytes || !writer_.write(&header, payload)) return false;
  if (writer_.take_reader_sleeps()) ring_doorbell();
  return true;
}

/// True if all of the frame is in the ring.
bool ShmChannel::write(Outgoing& frame) {
  do {
    const uint64_t piece = std::min<uint64_t>(kPieceBytes, frame.payload.size() - frame.written);
    const auto bytes = frame.abandoned ? std::span(kZeros).first(piece) : frame.payload.subspan(frame.written, piece);
    if (!writer_.write(frame.begun ? nullptr : &frame.header, bytes)) return false;
    frame.begun = true;
    frame.written += piece;
    if (writer_.take_reader_sleeps()) ring_doorbell();
  } while (frame.written < frame.payload.size());
  return true;
}

bool ShmChannel::send_queued() {
  bool moved = false;
  while (!queue_.empty()) {
    const uint64_t before = queue_.front().written;
    const bool all = write(queue_.front());
    moved = moved || all || queue_.front().written > before;
    if (!all) break;
    const SendToken token = queue_.pop().token;
    if (token != kNoToken) sink_.on_sent(token);
  }
  if (writer_.broken()) broken("claims to have read what was never written");
  return moved;
}

void ShmChannel::abandon(uint64_t communicator, int32_t rank) {
  const auto concerns = [&](const wire::FrameHeader& header, int32_t side) { return header.communicator == communicator && side == rank; };
  if (concerns(incoming_.header, incoming_.header.destination)) incoming_.abandoned = true;
  for (size_t queued = queue_.size(); queued > 0; --queued) {
    Outgoing frame = queue_.pop();
    if (concerns(frame.header, frame.header.source) && !is_word(frame.payload, frame.token)) {
      if (!frame.begun) continue;
      frame.abandoned = true;
      frame.token = kNoToken;
    }
    queue_.push(frame);
  }
}

bool ShmChannel::poll() {
  if (!open_ || !failure_.ok()) return false;
  const bool received = receive();
  return (!queue_.empty() && send_queued()) || received;
}

// A look at the next record takes its cache line away from the writer, who is about to use it, and waits for it: so one at a time here.
bool ShmChannel::glance() { return open_ && failure_.ok() && receive_record() > 0; }

bool ShmChannel::receive() {
  uint64_t moved = 0;
  while (moved < ring_bytes_) {
    const uint64_t bytes = receive_record();
    if (bytes == 0) break;
    moved += bytes;
  }
  return moved > 0;
}

/// The record's bytes; 0 if there is none, or none that can be understood.
uint64_t ShmChannel::receive_record() {
  RingReader::Record record;
  const RingReader::Found found = reader_.next(record);
  if (found == RingReader::Found::nothing) return 0;
  if (found == RingReader::Found::broken) {
    broken("wrote a record that no version of this library writes");
    return 0;
  }
  if (!accept(record)) return 0;
  if (reader_.release(record)) ring_doorbell();
  return ring::record_bytes(record.payload.size());
}

bool ShmChannel::accept(const RingReader::Record& record) {
  if (record.kind == ring::Kind::first && !begin_frame(record)) return false;
  if (record.kind == ring::Kind::first && incoming_.arrived == incoming_.bytes) return true;  // taken whole, or there is no payload
  if (record.payload.size() > incoming_.bytes - incoming_.arrived) return broken("wrote more payload than its frame announced");
  if (!record.payload.empty()) deliver(record.payload);
  return true;
}

bool ShmChannel::begin_frame(const RingReader::Record& record) {
  if (incoming_.arrived < incoming_.bytes) return broken("began a frame within another");
  const uint64_t first = ring::word(record.header).load(std::memory_order_relaxed);
  if (!wire::decode_message(first, record.header + wire::frame::kFieldsAt, max_payload_bytes_, incoming_.header)) {
    const auto header = wire::decode_frame(first, incoming_.header, max_payload_bytes_);
    if (!header.ok()) return broken(header.status().text());
    incoming_.header = *header;
  }
  incoming_.landing = {};
  incoming_.bytes = wire::payload_bytes(incoming_.header);
  incoming_.arrived = 0;
  incoming_.abandoned = false;
  if (record.payload.size() > incoming_.bytes) return broken("wrote more payload than its frame announced");
  if (incoming_.bytes > 0 && record.payload.size() == incoming_.bytes && sink_.on_whole(peer_, incoming_.header, record.payload)) {
    incoming_.arrived = incoming_.bytes;
    return true;
  }
  incoming_.landing = sink_.on_frame(peer_, incoming_.header);
  assert(incoming_.landing.empty() || incoming_.landing.size() >= incoming_.bytes);
  return true;
}

void ShmChannel::deliver(std::span<const std::byte> payload) {
  const uint64_t offset = incoming_.arrived;
  incoming_.arrived += payload.size();
  if (incoming_.abandoned) return;
  if (incoming_.landing.empty()) return sink_.on_bytes(peer_, incoming_.header, offset, payload);
  std::memcpy(incoming_.landing.data() + offset, payload.data(), payload.size());
  sink_.on_landed(peer_, incoming_.header, offset, payload.size());
}

bool ShmChannel::arm() {
  if (!open_ || !failure_.ok()) return true;
  if (!reader_.arm()) return false;
  if (queue_.empty()) return true;
  const Outgoing& next = queue_.front();
  return writer_.arm(std::min<uint64_t>(kPieceBytes, next.payload.size() - next.written));
}

void ShmChannel::disarm() {
  if (!open_) return;
  reader_.disarm();
  writer_.disarm();
}

/// An eventfd takes 2^64 - 2 rings before it would refuse one, so the result means nothing.
void ShmChannel::ring_doorbell() {
  const uint64_t one = 1;
  (void)!::write(doorbell_.get(), &one, sizeof one);
}

bool ShmChannel::broken(std::string_view how) {
  failure_ = remote_error(fmt::format("its shared memory is not as we left it: it {}", how));
  return false;
}

}  // namespace isthmus::transport
