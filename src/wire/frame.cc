// SPDX-License-Identifier: Apache-2.0
// frame.h's layout and checks. Pure; decode_frame is the first thing that touches bytes from another process, so it
// accepts only headers that this version could have sent.
#include "wire/frame.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace isthmus::wire {
namespace {

constexpr size_t kReservedBytes = 3;

uint8_t allowed_flags(FrameType type) {
  if (type == FrameType::data) return kEager;
  if (type == FrameType::done) return kFar;
  return type == FrameType::offer ? uint8_t{kStage} : uint8_t{0};
}

bool length_allowed(const FrameHeader& header, uint64_t max_payload_bytes) {
  switch (header.type) {
    case FrameType::data:
      return header.length <= max_payload_bytes;
    case FrameType::offer:
      return header.length == RemoteSpan::kBytes;
    case FrameType::credit:
      return true;  // the owner compares it with what it has outstanding
    case FrameType::done:
    case FrameType::grant:
    case FrameType::seen:
    case FrameType::want:
      return header.length == 0;
  }
  return false;
}

Status check(const FrameHeader& header, uint64_t max_payload_bytes) {
  const auto type = static_cast<unsigned>(header.type);
  if (header.type < FrameType::data || header.type > FrameType::want) return remote_error(fmt::format("frame of unknown type {}", type));
  if ((header.flags & ~allowed_flags(header.type)) != 0) {
    return remote_error(fmt::format("frame of type {} with flags {:#x}", type, unsigned{header.flags}));
  }
  if (header.call_class > CallClass::send_recv) return remote_error("frame of an unknown call class");
  if (header.source < 0 || header.destination < 0) return remote_error("frame with a negative rank");
  if (!length_allowed(header, max_payload_bytes)) {
    return remote_error(fmt::format("frame of type {} announces {} bytes (limit {})", type, header.length, max_payload_bytes));
  }
  return {};
}

}  // namespace

void encode(const FrameHeader& header, std::span<std::byte, FrameHeader::kBytes> out) {
  Writer writer(out);
  writer.u16(FrameHeader::kMagic)
      .u8(static_cast<uint8_t>(header.type))
      .u8(header.flags)
      .u8(static_cast<uint8_t>(header.call_class))
      .fill(std::array<std::byte, kReservedBytes>{})
      .u64(header.communicator)
      .i32(header.source)
      .i32(header.destination)
      .u32(header.sequence)
      .u32(header.ordinal)
      .u64(header.length)
      .u64(header.key);
}

Result<FrameHeader> decode_frame(std::span<const std::byte, FrameHeader::kBytes> in, uint64_t max_payload_bytes) {
  Reader reader(in);
  if (reader.u16() != FrameHeader::kMagic) return remote_error("frame with a wrong magic number: the stream is out of step or not ours");
  FrameHeader header;
  header.type = static_cast<FrameType>(reader.u8());
  header.flags = reader.u8();
  header.call_class = static_cast<CallClass>(reader.u8());
  std::array<uint8_t, kReservedBytes> reserved;
  reader.fill(reserved);
  if (reserved != decltype(reserved){}) return remote_error("frame with reserved bits set");
  header.communicator = reader.u64();
  header.source = reader.i32();
  header.destination = reader.i32();
  header.sequence = reader.u32();
  header.ordinal = reader.u32();
  header.length = reader.u64();
  header.key = reader.u64();
  ISTHMUS_TRY(check(header, max_payload_bytes));
  return header;
}

void encode(const RemoteSpan& remote, std::span<std::byte, RemoteSpan::kBytes> out) {
  Writer(out).u64(remote.address).u64(remote.bytes).u64(remote.segment).u64(remote.offset);
}

RemoteSpan decode_remote(std::span<const std::byte, RemoteSpan::kBytes> in) {
  Reader reader(in);
  RemoteSpan remote;
  remote.address = reader.u64();
  remote.bytes = reader.u64();
  remote.segment = reader.u64();
  remote.offset = reader.u64();
  return remote;
}

uint64_t payload_bytes(const FrameHeader& header) {
  return header.type == FrameType::data || header.type == FrameType::offer ? header.length : 0;
}

}  // namespace isthmus::wire
