// SPDX-License-Identifier: Apache-2.0
// bytes.h, hash.h and rng.h: layouts, bounds, known answers.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/rng.h"

namespace isthmus {
namespace {

TEST(Bytes, WritesLittleEndianAndReadsBack) {
  std::array<std::byte, 27> memory;
  Writer writer(memory);
  writer.u8(0x01).u16(0x0302).u32(0x07060504).u64(0x0f0e0d0c0b0a0908).i32(-2).i64(std::numeric_limits<int64_t>::min());
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer.written(), memory.size());
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(std::to_integer<size_t>(memory[i]), i + 1);

  Reader reader(memory);
  EXPECT_EQ(reader.u8(), 0x01);
  EXPECT_EQ(reader.u16(), 0x0302);
  EXPECT_EQ(reader.u32(), 0x07060504u);
  EXPECT_EQ(reader.u64(), 0x0f0e0d0c0b0a0908u);
  EXPECT_EQ(reader.i32(), -2);
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(reader.i64(), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(reader.finished());
}

TEST(Bytes, ReadingBeyondTheEndFailsForGoodAndGivesZeros) {
  const std::array<std::byte, 6> memory = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{7}, std::byte{8}};
  Reader reader(memory);
  EXPECT_EQ(reader.u64(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0) << "a failed reader must not resume";
  EXPECT_EQ(reader.remaining(), 0u);

  Reader sized(memory);
  EXPECT_TRUE(sized.sized_bytes(std::numeric_limits<size_t>::max()).empty()) << "announces 4 GiB, holds two bytes";
  EXPECT_FALSE(sized.ok());
}

TEST(Bytes, SizedTextsAreLimited) {
  std::array<std::byte, 9> memory;
  ASSERT_TRUE(Writer(memory).sized_text("hello").ok());
  EXPECT_EQ(Reader(memory).sized_text(5), "hello");
  Reader strict(memory);
  EXPECT_EQ(strict.sized_text(4), "");
  EXPECT_FALSE(strict.ok());
}

TEST(Bytes, WritingBeyondTheEndTouchesNothing) {
  std::array<std::byte, 4> memory{};
  Writer writer(std::span<std::byte>(memory).first(3));
  writer.u16(0x0101).u16(0xffff);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.u8(0xff).written(), 2u);
  EXPECT_EQ(memory[2], std::byte{0});
}

TEST(Bytes, FillTakesWholeArraysOrZeros) {
  std::array<std::byte, 3> memory = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<uint8_t, 2> two{};
  std::array<uint8_t, 2> none = {9, 9};
  Reader reader(memory);
  reader.fill(two);
  EXPECT_EQ(two, (std::array<uint8_t, 2>{1, 2}));
  reader.fill(none);
  EXPECT_EQ(none, (std::array<uint8_t, 2>{0, 0}));
  EXPECT_FALSE(reader.ok());
}

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_text(""), 0x2d06800538d394c2u);  // published by xxHash for no bytes, seed 0
  EXPECT_NE(hash_text("a", 0), hash_text("a", 1));
}

TEST(Hash, FieldsAreDelimitedAndOrdered) {
  EXPECT_NE(Hasher().add("ab").add("c").value(), Hasher().add("a").add("bc").value());
  EXPECT_NE(Hasher().add(1).add(2).value(), Hasher().add(2).add(1).value());
  EXPECT_EQ(Hasher().add(uint8_t{1}).value(), Hasher().add(uint64_t{1}).value()) << "the width of a field is not part of its value";
}

TEST(Rng, IsPhilox) {
  // Random123's known answers for philox4x32-10: counter 0, key 0.
  CounterRng rng(0, 0);
  EXPECT_EQ(rng.next_u64(), 0xe169c58d6627e8d5u);
  EXPECT_EQ(rng.next_u64(), 0x9b00dbd8bc57ac4cu);
}

TEST(Rng, StreamsAndSeedsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (uint64_t stream = 0; stream < 8; ++stream) {
      CounterRng rng(seed, stream);
      for (int i = 0; i < 8; ++i) seen.insert(rng.next_u64());
    }
  EXPECT_EQ(seen.size(), 8u * 8u * 8u);
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  CounterRng rng(1, 2);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) ++counts.at(rng.below(6));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(rng.below(1), 0u);
  const uint64_t huge = (uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) EXPECT_LT(rng.below(huge), huge);
}

TEST(Rng, UniformStaysBelowOne) {
  CounterRng rng(3, 4);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

}  // namespace
}  // namespace isthmus
