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

Result<FrameHeader> decode_frame(uint64_t first, const FrameHeader& fields, uint64_t max_payload_bytes) {
  if ((first & 0xffff) != FrameHeader::kMagic) {
    return remote_error("frame with a wrong magic number: the stream is out of step or not ours");
  }
  if (first >> (64 - 8 * kReservedBytes) != 0) return remote_error("frame with reserved bits set");
  FrameHeader header = fields;
  header.type = static_cast<FrameType>(first >> 16 & 0xff);
  header.flags = static_cast<uint8_t>(first >> 24 & 0xff);
  header.call_class = static_cast<CallClass>(first >> 32 & 0xff);
  ISTHMUS_TRY(check(header, max_payload_bytes));
  return header;
}

Result<FrameHeader> decode_frame(std::span<const std::byte, FrameHeader::kBytes> in, uint64_t max_payload_bytes) {
  FrameHeader header;
  uint64_t first = 0;
  std::memcpy(&first, in.data(), sizeof(first));
  if (decode_message(first, in.data() + frame::kFieldsAt, max_payload_bytes, header)) return header;
  return decode_frame(first, header, max_payload_bytes);
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

}  // namespace isthmus::wire
