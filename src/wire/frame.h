// SPDX-License-Identifier: Apache-2.0
// The frame: a fixed header before every message between two processes once they know each other. Used by transport/ (which
// moves frames) and exec/ (which gives them meaning). Decoding untrusted bytes fails on a wrong magic, type, reserved bit or length.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/status.h"

namespace isthmus::wire {

enum class FrameType : uint8_t {
  data = 1,    ///< payload of message `ordinal` of call `sequence`
  offer = 2,   ///< the same message, to be read in place: payload is a RemoteSpan
  done = 3,    ///< the receiver has applied offered message `ordinal`
  grant = 4,   ///< receiver -> sender: messages with ordinal < `ordinal` of call `sequence` have room
  credit = 5,  ///< receiver -> sender: `length` eager bytes were consumed (no payload)
  seen = 6,    ///< a frame of call `sequence` carried another key than mine (answer to a mismatch)
  want = 7,    ///< sender -> receiver: messages of call `sequence` wait here for a grant
};

enum FrameFlag : uint8_t {
  kEager = 1,  ///< data: sent on credit, before a grant covered it
  kStage = 2,  ///< offer: take a copy as soon as there is room, my progress may depend on it
  kFar = 4,    ///< done: reading the message was slow, as between CPUs without a common cache
};

/// Collectives and send/recv are numbered apart.
enum class CallClass : uint8_t { collective = 0, send_recv = 1 };

/// 48 bytes on the wire, little endian: magic 2, type 1, flags 1, call class 1, reserved 3, then the fields from `communicator` on in this
/// order, which lie in memory as they travel.
struct FrameHeader {
  static constexpr uint16_t kMagic = 0x1575;
  static constexpr size_t kBytes = 48;

  FrameType type = FrameType::data;
  uint8_t flags = 0;
  CallClass call_class = CallClass::collective;
  uint64_t communicator = 0;  ///< the communicator's id, equal on all its ranks
  int32_t source = 0;         ///< sender's rank in it
  int32_t destination = 0;    ///< receiver's rank in it (several ranks may live in one process)
  uint32_t sequence = 0;      ///< call number in its class (send_recv: per ordered pair)
  uint32_t ordinal = 0;       ///< message number within (source, destination) of the call
  uint64_t length = 0;        ///< payload bytes after the header; for credit: bytes returned, no payload
  uint64_t key = 0;           ///< hash of what the call is; ranks that disagree made different calls
};
static_assert(sizeof(FrameHeader) == FrameHeader::kBytes && offsetof(FrameHeader, communicator) == 8 && offsetof(FrameHeader, key) == 40);
static_assert(std::endian::native == std::endian::little, "frames are copied as they lie in memory");

/// Where an offered message lies in the sender's process.
struct RemoteSpan {
  static constexpr size_t kBytes = 32;
  uint64_t address = 0;  ///< in the owner's address space
  uint64_t bytes = 0;
  uint64_t segment = 0;  ///< shared segment id, 0: none (then only single-copy reads)
  uint64_t offset = 0;   ///< within the segment
};

namespace frame {
inline constexpr size_t kFieldsAt = offsetof(FrameHeader, communicator);
/// The first eight bytes.
constexpr uint64_t first_word(FrameType type, uint8_t flags, CallClass call_class) {
  return uint64_t{FrameHeader::kMagic} | static_cast<uint64_t>(type) << 16 | static_cast<uint64_t>(flags) << 24 |
         static_cast<uint64_t>(call_class) << 32;
}
}  // namespace frame

inline void encode(const FrameHeader& header, std::span<std::byte, FrameHeader::kBytes> out) {
  const uint64_t first = frame::first_word(header.type, header.flags, header.call_class);
  std::memcpy(out.data(), &first, sizeof(first));
  std::memcpy(out.data() + frame::kFieldsAt, reinterpret_cast<const std::byte*>(&header) + frame::kFieldsAt,
              FrameHeader::kBytes - frame::kFieldsAt);
}
/// Whether it is a message that decode_frame() accepts, and which. Quick; false says nothing about what it is instead, but then the
/// header's fields and `first` are the frame. Reads each byte once, so the frame may lie where its sender can still change it (there
/// the first word is the caller's to read).
inline bool decode_message(uint64_t first, const std::byte* fields, uint64_t max_payload_bytes, FrameHeader& header) {
  std::memcpy(reinterpret_cast<std::byte*>(&header) + frame::kFieldsAt, fields, FrameHeader::kBytes - frame::kFieldsAt);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // what is checked must be what is used
  const uint64_t variable = first & frame::first_word({}, kEager, CallClass::send_recv) & ~uint64_t{FrameHeader::kMagic};
  if (first != (frame::first_word(FrameType::data, 0, CallClass::collective) | variable)) return false;
  header.type = FrameType::data;
  header.flags = static_cast<uint8_t>(first >> 24);
  header.call_class = static_cast<CallClass>(first >> 32);
  return (header.source | header.destination) >= 0 && header.length <= max_payload_bytes;
}
/// `max_payload_bytes` bounds what a data frame may announce; lengths that a type does not allow are refused.
Result<FrameHeader> decode_frame(std::span<const std::byte, FrameHeader::kBytes> in, uint64_t max_payload_bytes);
/// The same of the first eight bytes and the fields behind them.
Result<FrameHeader> decode_frame(uint64_t first, const FrameHeader& fields, uint64_t max_payload_bytes);

void encode(const RemoteSpan& remote, std::span<std::byte, RemoteSpan::kBytes> out);
RemoteSpan decode_remote(std::span<const std::byte, RemoteSpan::kBytes> in);

/// Payload bytes that follow a header (0 for done, grant, credit, seen).
inline uint64_t payload_bytes(const FrameHeader& header) {
  return header.type == FrameType::data || header.type == FrameType::offer ? header.length : 0;
}

}  // namespace isthmus::wire
