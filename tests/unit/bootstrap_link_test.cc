// SPDX-License-Identifier: Apache-2.0
// link.h: messages over streams that deliver in pieces, push back, break and lie about lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/bytes.h"
#include "bootstrap/link.h"
#include "memory_network.h"

namespace isthmus::bootstrap {
namespace {

using testing::MemoryStream;
using testing::Pipe;

std::vector<std::byte> body_of(size_t bytes, uint8_t start = 0) {
  std::vector<std::byte> body(bytes);
  for (size_t i = 0; i < bytes; ++i) body[i] = static_cast<std::byte>(start + i);
  return body;
}

struct Pair {
  std::shared_ptr<Pipe> pipe = std::make_shared<Pipe>();
  Link a{std::make_unique<MemoryStream>(pipe, 0, testing::address_of(1, 1)), 1 << 20};
  Link b{std::make_unique<MemoryStream>(pipe, 1, testing::address_of(2, 2)), 1 << 20};
};

TEST(Link, DeliversInOrderAndWhole) {
  Pair pair;
  pair.a.send(1, body_of(3));
  pair.a.send(2, std::span<const std::byte>());
  pair.a.send(3, std::make_shared<const std::vector<std::byte>>(body_of(200'000, 7)));
  EXPECT_EQ(pair.a.unsent_bytes(), 200'003u + 3 * Link::kHeaderBytes);
  ASSERT_TRUE(pair.a.flush().ok());
  EXPECT_EQ(pair.a.unsent_bytes(), 0u);
  size_t sizes[] = {3, 0, 200'000};
  for (uint8_t type = 1; type <= 3; ++type) {
    auto message = pair.b.receive();
    ASSERT_TRUE(message.ok() && message->has_value());
    EXPECT_EQ((*message)->type, type);
    EXPECT_EQ((*message)->body.size(), sizes[type - 1]);
    if (type == 3) {
      EXPECT_TRUE(std::ranges::equal((*message)->body, body_of(200'000, 7)));
    }
  }
  EXPECT_FALSE(pair.b.receive()->has_value());
}

TEST(Link, WorksInPiecesOfOneByteAgainstASmallBuffer) {
  Pair pair;
  pair.pipe->piece = 1;
  pair.pipe->capacity = 5;
  pair.a.send(9, body_of(40));
  pair.a.send(8, body_of(2));
  std::vector<uint8_t> types;
  for (int i = 0; i < 1000 && types.size() < 2; ++i) {
    ASSERT_TRUE(pair.a.flush().ok());
    auto message = pair.b.receive();
    ASSERT_TRUE(message.ok());
    if (message->has_value()) types.push_back((*message)->type);
  }
  EXPECT_EQ(types, (std::vector<uint8_t>{9, 8}));
}

TEST(Link, RefusesLongAnnouncementsBeforeAllocating) {
  Pair pair;
  pair.b.set_max_body_bytes(100);
  pair.a.send(1, body_of(101));
  ASSERT_TRUE(pair.a.flush().ok());
  EXPECT_EQ(pair.b.receive().status().code(), Code::remote_error);

  Pair liar;
  const MemoryStream raw(liar.pipe, 0, testing::address_of(1, 1));
  std::array<std::byte, Link::kHeaderBytes> header{};
  Writer(header).u32(0xffffffff).u8(1);
  liar.pipe->bytes[0].assign(header.begin(), header.end());
  EXPECT_THAT(liar.b.receive().status().text(), ::testing::HasSubstr("4294967295"));
}

TEST(Link, RefusesReservedBits) {
  for (size_t at = 5; at < Link::kHeaderBytes; ++at) {
    Pair pair;
    std::array<std::byte, Link::kHeaderBytes> header{};
    header[at] = std::byte{1};
    pair.pipe->bytes[0].assign(header.begin(), header.end());
    EXPECT_FALSE(pair.b.receive().ok()) << at;
  }
}

TEST(Link, DeliversWhatCameBeforeTheEnd) {
  auto pipe = std::make_shared<Pipe>();
  Link b(std::make_unique<MemoryStream>(pipe, 1, testing::address_of(2, 2)), 100);
  {
    Link a(std::make_unique<MemoryStream>(pipe, 0, testing::address_of(1, 1)), 100);
    a.send(1, body_of(10));
    ASSERT_TRUE(a.flush().ok());
  }
  auto last = b.receive();
  ASSERT_TRUE(last.ok() && last->has_value());
  EXPECT_EQ(b.receive().status().code(), Code::remote_error);
  b.send(1, body_of(1));
  EXPECT_FALSE(b.flush().ok());
}

}  // namespace
}  // namespace isthmus::bootstrap
