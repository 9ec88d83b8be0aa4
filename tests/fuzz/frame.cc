// SPDX-License-Identifier: Apache-2.0
// Frame headers and remote spans: whatever is accepted is exactly what encoding it gives.
#include "wire/frame.h"

#include <algorithm>
#include <cstring>

#include "target.h"

namespace isthmus::fuzz {

using wire::FrameHeader;
using wire::RemoteSpan;

namespace {
constexpr uint64_t kMaxPayloadBytes = 1 << 20;
}

void run(Input input) {
  if (input.size() >= RemoteSpan::kBytes) {
    const auto bytes = input.first<RemoteSpan::kBytes>();
    std::array<std::byte, RemoteSpan::kBytes> again;
    wire::encode(wire::decode_remote(bytes), again);
    promise(std::equal(again.begin(), again.end(), bytes.begin()), "a remote span survives");
  }
  if (input.size() < FrameHeader::kBytes) return;
  const auto bytes = input.first<FrameHeader::kBytes>();
  const auto header = wire::decode_frame(bytes, kMaxPayloadBytes);
  FrameHeader fields;
  uint64_t first = 0;
  std::memcpy(&first, bytes.data(), sizeof(first));
  const bool message = wire::decode_message(first, bytes.data() + wire::frame::kFieldsAt, kMaxPayloadBytes, fields);
  promise(message == (header.ok() && header->type == wire::FrameType::data), "a quick look takes messages and nothing else");
  promise(wire::decode_frame(first, fields, kMaxPayloadBytes).ok() == header.ok(), "and leaves the rest as it is");
  if (!header.ok()) return;
  promise(wire::payload_bytes(*header) <= kMaxPayloadBytes, "no payload is longer than allowed");
  promise(header->source >= 0 && header->destination >= 0, "ranks are not negative");
  std::array<std::byte, FrameHeader::kBytes> again;
  wire::encode(*header, again);
  promise(std::equal(again.begin(), again.end(), bytes.begin()), "a frame header survives");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (uint8_t type = 1; type <= static_cast<uint8_t>(wire::FrameType::seen); ++type) {
    Bytes bytes(FrameHeader::kBytes);
    wire::encode(
        {.type = static_cast<wire::FrameType>(type), .communicator = 7, .source = 1, .destination = 2, .sequence = 3, .ordinal = 4},
        std::span<std::byte, FrameHeader::kBytes>(bytes));
    all.push_back(bytes);
  }
  return all;
}

}  // namespace isthmus::fuzz
