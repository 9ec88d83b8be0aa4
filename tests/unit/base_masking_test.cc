// SPDX-License-Identifier: Apache-2.0
// masking.h: known answers, agreement, sealing, wiping.
#include "base/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base_hex.h"

namespace isthmus {
namespace {

const Masking& masking() { return *Masking::load().value(); }

Secret filled(uint8_t value) {
  Secret secret;
  secret.bytes().fill(static_cast<std::byte>(value));
  return secret;
}

TEST(Masking, DerivesAsRfc5869) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});  // test case 3: neither salt nor info
  EXPECT_EQ(hex(masking().derive(secret, {}).bytes()), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
  EXPECT_NE(masking().derive(secret, as_bytes("a")).bytes(), masking().derive(secret, as_bytes("b")).bytes());
}

TEST(Masking, StreamsAreChaCha20) {
  std::vector<std::byte> stream(64), longer(100000), other(64);
  ASSERT_TRUE(masking().key_stream(Secret(), 0, stream).ok());
  EXPECT_EQ(hex(std::span(stream).first(32)), "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7");  // RFC 8439, A.1
  ASSERT_TRUE(masking().key_stream(Secret(), 0, longer).ok());
  EXPECT_TRUE(std::equal(stream.begin(), stream.end(), longer.begin()));
  ASSERT_TRUE(masking().key_stream(Secret(), 1, other).ok());
  EXPECT_NE(other, stream);
  ASSERT_TRUE(masking().key_stream(filled(1), 0, other).ok());
  EXPECT_NE(other, stream);
}

TEST(Masking, TwoSidesAgree) {
  const Secret a = filled(7), b = filled(9);
  const Key a_public = masking().public_of(a).value(), b_public = masking().public_of(b).value();
  EXPECT_EQ(masking().agree(a, b_public)->bytes(), masking().agree(b, a_public)->bytes());
  EXPECT_NE(masking().agree(a, b_public)->bytes(), masking().agree(a, a_public)->bytes());
  EXPECT_EQ(masking().agree(a, Key{}).status().code(), Code::remote_error) << "of small order";
}

TEST(Masking, WhatIsSealedIsOpenedWhole) {
  const std::vector<std::byte> text(64, std::byte{5});
  std::vector<std::byte> sealed(text.size() + Masking::kTagBytes), opened(text.size());
  ASSERT_TRUE(masking().seal(filled(1), text, sealed).ok());
  EXPECT_TRUE(std::search(sealed.begin(), sealed.end(), text.begin(), text.begin() + 8) == sealed.end());
  ASSERT_TRUE(masking().open(filled(1), sealed, opened).ok());
  EXPECT_EQ(opened, text);
  EXPECT_EQ(masking().open(filled(2), sealed, opened).code(), Code::remote_error);
  for (size_t i = 0; i < sealed.size(); i += 7) {
    sealed[i] ^= std::byte{1};
    EXPECT_FALSE(masking().open(filled(1), sealed, opened).ok()) << i;
    EXPECT_EQ(opened, std::vector<std::byte>(text.size())) << "and nothing of it is left";
    sealed[i] ^= std::byte{1};
  }
  EXPECT_FALSE(masking().open(filled(1), std::span(sealed).first(70), opened).ok());
}

TEST(Masking, WipesWhatItIsGiven) {
  std::vector<std::byte> memory(100, std::byte{1});
  wipe(memory);
  EXPECT_EQ(memory, std::vector<std::byte>(100));
  wipe({});
}

}  // namespace
}  // namespace isthmus
