// SPDX-License-Identifier: Apache-2.0
// rendezvous_messages.h: bodies that are damaged, cut short or too long.
#include "bootstrap/rendezvous_messages.h"

#include <gtest/gtest.h>

namespace isthmus::bootstrap {
namespace {

TEST(RendezvousMessages, DamagedOnesAreRefused) {
  Table table;
  table.hub_rank = 1;
  for (int32_t rank = 0; rank < 3; ++rank) table.blobs.emplace_back(static_cast<size_t>(10 + rank), std::byte{1});
  const std::vector<std::byte> body = encode(table);
  ASSERT_TRUE(decode_table(body, 3).ok());
  EXPECT_FALSE(decode_table(body, 4).ok());
  for (size_t length = 0; length < body.size(); ++length) EXPECT_FALSE(decode_table(std::span(body).first(length), 3).ok()) << length;
  for (const size_t at : {16u, 19u, 20u, 24u, 27u}) {  // hub rank, number of ranks, length of a blob
    std::vector<std::byte> damaged = body;
    damaged[at] ^= std::byte{0x7f};
    EXPECT_FALSE(decode_table(damaged, 3).ok()) << at;
  }
  EXPECT_EQ(decode_verdict(encode_verdict(timeout_error("late"))).text(), "late");
  EXPECT_EQ(decode_verdict(encode_verdict(timeout_error(std::string(5000, 'x')))).text().size(), 1024u);
  for (const uint8_t code : {0, 6, 8, 255}) {
    std::vector<std::byte> verdict = encode_verdict(timeout_error("late"));
    verdict[0] = std::byte{code};
    EXPECT_EQ(decode_verdict(verdict).code(), Code::remote_error) << int{code};
  }
  EXPECT_EQ(decode_verdict({}).code(), Code::remote_error);
  EXPECT_EQ(decode_waiting(encode(Waiting{.missing = 2, .which = "1,2"}))->which, "1,2");
  EXPECT_FALSE(decode_waiting(std::span(body).first(7)).ok());
}

}  // namespace
}  // namespace isthmus::bootstrap
