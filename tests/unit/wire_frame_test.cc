// SPDX-License-Identifier: Apache-2.0
// frame.h: the layout on the wire, and that only frames which this version can send are accepted.
#include <gtest/gtest.h>

#include <array>

#include "wire/frame.h"

namespace isthmus::wire {
namespace {

using Bytes = std::array<std::byte, FrameHeader::kBytes>;
constexpr uint64_t kLimit = 1 << 20;

FrameHeader example() {
  return {.type = FrameType::data,
          .flags = kEager,
          .call_class = CallClass::send_recv,
          .communicator = 0x1122334455667788,
          .source = 3,
          .destination = 70'000,
          .sequence = 0xfffffffe,
          .ordinal = 9,
          .length = 4096,
          .key = 0x99aabbccddeeff00};
}

Bytes encoded(const FrameHeader& header) {
  Bytes bytes;
  encode(header, bytes);
  return bytes;
}

TEST(Frame, LayoutIsFixed) {
  const Bytes bytes = encoded(example());
  EXPECT_EQ(bytes[0], std::byte{0x75});
  EXPECT_EQ(bytes[1], std::byte{0x15});
  EXPECT_EQ(bytes[2], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{0x88});   // communicator
  EXPECT_EQ(bytes[16], std::byte{3});     // source
  EXPECT_EQ(bytes[24], std::byte{0xfe});  // sequence
  EXPECT_EQ(bytes[33], std::byte{0x10});  // length
  EXPECT_EQ(bytes[47], std::byte{0x99});  // key
}

TEST(Frame, RoundTrips) {
  auto decoded = decode_frame(encoded(example()), kLimit);
  ASSERT_TRUE(decoded.ok()) << decoded.status().text();
  EXPECT_EQ(encoded(*decoded), encoded(example()));
  EXPECT_EQ(decoded->key, example().key);
  EXPECT_EQ(decoded->destination, 70'000);
}

TEST(Frame, EveryTypeHasItsLengths) {
  struct Case {
    FrameType type;
    uint64_t length;
    bool accepted;
    uint64_t payload;
  };
  for (const Case& c : {Case{FrameType::data, 0, true, 0}, Case{FrameType::data, kLimit, true, kLimit},
                        Case{FrameType::data, kLimit + 1, false, 0}, Case{FrameType::offer, RemoteSpan::kBytes, true, RemoteSpan::kBytes},
                        Case{FrameType::offer, RemoteSpan::kBytes + 1, false, 0}, Case{FrameType::done, 0, true, 0},
                        Case{FrameType::done, 1, false, 0}, Case{FrameType::grant, 1, false, 0}, Case{FrameType::grant, 0, true, 0},
                        Case{FrameType::seen, 1, false, 0}, Case{FrameType::seen, 0, true, 0}, Case{FrameType::credit, 1 << 30, true, 0}}) {
    FrameHeader header = example();
    header.flags = 0;
    header.type = c.type;
    header.length = c.length;
    auto decoded = decode_frame(encoded(header), kLimit);
    EXPECT_EQ(decoded.ok(), c.accepted) << "type " << int(c.type) << " length " << c.length;
    if (decoded.ok()) {
      EXPECT_EQ(payload_bytes(*decoded), c.payload);
    }
  }
}

TEST(Frame, RefusesWhatCannotHaveBeenSent) {
  const auto refused = [](size_t at, uint8_t value) {
    Bytes bytes = encoded(example());
    bytes[at] = std::byte{value};
    auto decoded = decode_frame(bytes, kLimit);
    return !decoded.ok() && decoded.status().code() == Code::remote_error;
  };
  EXPECT_TRUE(refused(0, 0x76)) << "magic";
  EXPECT_TRUE(refused(1, 0)) << "magic";
  EXPECT_TRUE(refused(2, 0)) << "type";
  EXPECT_TRUE(refused(2, 7)) << "type";
  EXPECT_TRUE(refused(3, 2)) << "flag";
  EXPECT_TRUE(refused(4, 2)) << "call class";
  for (size_t i = 5; i < 8; ++i) EXPECT_TRUE(refused(i, 1)) << "reserved byte " << i;
  EXPECT_TRUE(refused(19, 0x80)) << "negative source";
  EXPECT_TRUE(refused(23, 0x80)) << "negative destination";
  FrameHeader grant = example();
  grant.type = FrameType::grant;
  grant.length = 0;
  EXPECT_FALSE(decode_frame(encoded(grant), kLimit).ok()) << "only messages are eager";
}

TEST(Frame, RemoteSpanRoundTrips) {
  const RemoteSpan span = {.address = 0x0102030405060708, .bytes = 99, .segment = 7, .offset = 1u << 31};
  std::array<std::byte, RemoteSpan::kBytes> bytes;
  encode(span, bytes);
  EXPECT_EQ(bytes[0], std::byte{8});
  const RemoteSpan back = decode_remote(bytes);
  EXPECT_EQ(back.address, span.address);
  EXPECT_EQ(back.bytes, span.bytes);
  EXPECT_EQ(back.segment, span.segment);
  EXPECT_EQ(back.offset, span.offset);
}

}  // namespace
}  // namespace isthmus::wire
