// SPDX-License-Identifier: Apache-2.0
// crypto.h: known answers, key derivation, comparison, randomness.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base_hex.h"

namespace isthmus {
namespace {

const Crypto& crypto() {
  auto loaded = Crypto::load();
  EXPECT_TRUE(loaded.ok()) << loaded.status().text();
  return *loaded.value();
}

TEST(Crypto, HmacMatchesKnownAnswers) {
  Key key{};  // RFC 4231 pads short keys with zeros, so its keys of up to 32 bytes can be used as they are
  Writer(key).bytes(as_bytes("Jefe"));
  EXPECT_EQ(hex(crypto().hmac(key, as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  Key key1{};
  std::fill_n(key1.begin(), 20, std::byte{0x0b});
  EXPECT_EQ(hex(crypto().hmac(key1, as_bytes("Hi There"))), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_NE(crypto().hmac(key, {}), Key{});
}

TEST(Crypto, DerivedKeysAreIndependent) {
  Key secret{};
  secret[0] = std::byte{1};
  const Key control = derive_key(crypto(), secret, "control");
  EXPECT_EQ(control, derive_key(crypto(), secret, "control"));
  EXPECT_NE(control, derive_key(crypto(), secret, "data"));
  EXPECT_NE(control, derive_key(crypto(), Key{}, "control"));
}

TEST(Crypto, NoneMakesZeroTags) { EXPECT_EQ(Crypto::none().hmac(Key{}, as_bytes("anything")), Key{}); }

TEST(Crypto, ComparesWholeSpans) {
  Key a{}, b{};
  EXPECT_TRUE(equal_constant_time(a, b));
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = std::byte{0x80};
    EXPECT_FALSE(equal_constant_time(a, b)) << "byte " << i;
    b[i] = std::byte{0};
  }
  EXPECT_FALSE(equal_constant_time(a, std::span(b).first(31)));
}

TEST(Crypto, RandomBytesFillEverything) {
  std::array<std::byte, 64> first{}, second{};
  ASSERT_TRUE(random_bytes(first).ok());
  ASSERT_TRUE(random_bytes(second).ok());
  EXPECT_NE(first, second);
  std::byte seen{};
  for (int i = 0; i < 16; ++i) {
    std::array<std::byte, 3> tail{};
    ASSERT_TRUE(random_bytes(tail).ok());
    seen |= tail[2];
  }
  EXPECT_NE(seen, std::byte{0}) << "the last byte never changes";
}

}  // namespace
}  // namespace isthmus
