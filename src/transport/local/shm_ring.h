// SPDX-License-Identifier: Apache-2.0
// A one-way byte ring in memory shared by two processes: one writes records, the other reads them, neither waits. The rings of a
// pair of processes live in one memfd. Used by ShmChannel. The writer trusts nothing that the reader could change and the other
// way round: garbage is reported, never followed out of the ring.
//
// A record starts on a cache line whose first word says kind and payload size and is written last. The writer clears the word
// of the following line before that, so the reader needs no other flag than the word it waits for, and a small frame costs one
// transfer of one cache line:
//
//   word 8 | frame header 48 | payload, if it fits into 8 bytes
//   payload, if longer, from the next line on
//
// The ring is mapped twice in a row, so a record is contiguous even where it wraps around.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/fd.h"
#include "base/status.h"
#include "memory/shared_memory.h"
#include "wire/frame.h"

namespace isthmus::transport {

/// What the two ends tell each other beside the records. Each word has a pair of cache lines for itself, since CPUs fetch pairs.
struct RingControl {
  alignas(128) uint64_t head;           ///< bytes consumed, by the reader, a while after the fact
  alignas(128) uint32_t reader_sleeps;  ///< set by a reader that is about to block: ring its doorbell after writing
  alignas(128) uint32_t writer_sleeps;  ///< set by a writer that is about to block: ring its doorbell after freeing room
};

/// One direction as it lies in this process. `data` is mapped for 2 * bytes; bytes is a power of two.
struct Ring {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  RingControl* control = nullptr;
};

/// The two rings of a pair of processes.
class RingPair {
 public:
  static constexpr uint64_t kLeastBytes = 64 << 10;
  static constexpr uint64_t kMostBytes = 64 << 20;

  /// New rings of `ring_bytes` each (a power of two within the limits above).
  static Result<RingPair> create(uint64_t ring_bytes);
  /// Rings that the peer made; refuses what is not sealed memory of the size that `ring_bytes`, an untrusted number, implies.
  static Result<RingPair> attach(Fd memory, uint64_t ring_bytes);

  /// The memory, to be handed to the peer; -1 once close_memory() was called.
  [[nodiscard]] int memory() const { return memory_.get(); }
  /// The mapping does not need the descriptor.
  void close_memory() { memory_.reset(); }
  /// 0: from the creator to the other, 1: back.
  [[nodiscard]] Ring direction(int index) const;

 private:
  Fd memory_;
  memory::Mapping mapping_;
  uint64_t ring_bytes_ = 0;
};

namespace ring {

inline constexpr uint64_t kLineBytes = 64;
inline constexpr uint64_t kHeaderAt = 8;
inline constexpr uint64_t kInlineAt = kHeaderAt + wire::FrameHeader::kBytes;
inline constexpr uint64_t kInlineBytes = kLineBytes - kInlineAt;

enum class Kind : uint32_t { nothing = 0, first = 1, more = 2 };  ///< the beginning of a frame, or further payload of it

constexpr uint64_t record_bytes(uint64_t payload) {
  return payload <= kInlineBytes ? kLineBytes : kLineBytes + (payload + kLineBytes - 1) / kLineBytes * kLineBytes;
}
constexpr uint64_t payload_at(uint64_t payload) { return payload <= kInlineBytes ? kInlineAt : kLineBytes; }
/// The reader gives room back when it has consumed an eighth of the ring, so the writer always finds room for a record of up to
/// a quarter, and the cleared word after it, once everything was read.
constexpr uint64_t most_payload(uint64_t ring_bytes) { return ring_bytes / 4; }

inline std::atomic_ref<uint64_t> word(std::byte* at) { return std::atomic_ref(*reinterpret_cast<uint64_t*>(at)); }

}  // namespace ring

class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(Ring ring) : ring_(ring) {}

  /// Writes a record: the beginning of a frame if `header` is given, else more payload. At most ring::most_payload() bytes. False: full.
  bool write(const wire::FrameHeader* header, std::span<const std::byte> payload) {
    const uint64_t bytes = ring::record_bytes(payload.size());
    if (!has_room(bytes)) return false;
    std::byte* record = at(tail_);
    if (header != nullptr)
      wire::encode(*header, std::span<std::byte, wire::FrameHeader::kBytes>(record + ring::kHeaderAt, wire::FrameHeader::kBytes));
    if (!payload.empty()) std::memcpy(record + ring::payload_at(payload.size()), payload.data(), payload.size());
    ring::word(at(tail_ + bytes)).store(0, std::memory_order_relaxed);
    const auto kind = header != nullptr ? ring::Kind::first : ring::Kind::more;
    // Sequentially consistent, here and with every sleep flag: of a record and a flag written at the same time one side sees the other's.
    ring::word(record).store(static_cast<uint64_t>(kind) << 32 | payload.size(), std::memory_order_seq_cst);
    tail_ += bytes;
    __builtin_prefetch(at(tail_ + ring::kLineBytes), 1);  // the next record will clear this line's word
    return true;
  }

  /// True if a record of `payload` bytes would fit now.
  bool fits(uint64_t payload) { return has_room(ring::record_bytes(payload)); }
  /// After a write: true if the reader sleeps and has to be woken, once.
  bool take_reader_sleeps() {
    std::atomic_ref flag(ring_.control->reader_sleeps);
    return flag.load(std::memory_order_seq_cst) != 0 && flag.exchange(0, std::memory_order_seq_cst) != 0;
  }
  /// Asks to be woken when there is room; false if there is room for `payload` bytes already.
  bool arm(uint64_t payload) {
    std::atomic_ref(ring_.control->writer_sleeps).store(1, std::memory_order_seq_cst);
    return !fits(payload);
  }
  void disarm() { std::atomic_ref(ring_.control->writer_sleeps).store(0, std::memory_order_relaxed); }
  /// The reader claims to have consumed what was never written.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] std::byte* at(uint64_t position) const { return ring_.data + (position & (ring_.bytes - 1)); }
  /// Room for `bytes` and for the cleared word behind them.
  bool has_room(uint64_t bytes) { return tail_ - head_ + bytes < ring_.bytes || refresh(bytes); }
  bool refresh(uint64_t bytes);

  Ring ring_;
  uint64_t tail_ = 0;  // bytes written since the beginning
  uint64_t head_ = 0;  // what the reader had consumed when we looked last
  bool broken_ = false;
};

class RingReader {
 public:
  struct Record {
    ring::Kind kind = ring::Kind::nothing;
    std::byte* header = nullptr;  ///< 48 bytes that the peer may still change: read each once
    std::span<const std::byte> payload;
  };
  enum class Found : uint8_t { nothing, record, broken };

  RingReader() = default;
  explicit RingReader(Ring ring) : ring_(ring) {}

  [[nodiscard]] bool empty() const { return ring::word(at(position_)).load(std::memory_order_acquire) == 0; }
  /// The oldest record, to be given back with release().
  Found next(Record& record) {
    std::byte* line = at(position_);
    const uint64_t word = ring::word(line).load(std::memory_order_acquire);
    if (word == 0) return Found::nothing;
    const uint64_t payload = word & UINT32_MAX;
    const uint64_t kind = word >> 32;
    if (kind > static_cast<uint64_t>(ring::Kind::more) || kind == 0 || payload > ring::most_payload(ring_.bytes)) return Found::broken;
    record = {
        .kind = static_cast<ring::Kind>(kind), .header = line + ring::kHeaderAt, .payload = {line + ring::payload_at(payload), payload}};
    return Found::record;
  }
  /// Gives the record's room back. True if the writer sleeps and has to be woken, once.
  bool release(const Record& record) {
    position_ += ring::record_bytes(record.payload.size());
    return position_ - published_ >= ring_.bytes / 8 && publish();
  }
  /// Asks to be woken by the next record; false if there is one.
  bool arm() {
    std::atomic_ref(ring_.control->reader_sleeps).store(1, std::memory_order_seq_cst);
    return ring::word(at(position_)).load(std::memory_order_seq_cst) == 0;
  }
  void disarm() { std::atomic_ref(ring_.control->reader_sleeps).store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::byte* at(uint64_t position) const { return ring_.data + (position & (ring_.bytes - 1)); }
  bool publish();

  Ring ring_;
  uint64_t position_ = 0;   // bytes read since the beginning
  uint64_t published_ = 0;  // what the writer knows of it
};

}  // namespace isthmus::transport
