// SPDX-License-Identifier: Apache-2.0
// Pool: loans are large enough, aligned, reused, accounted, and kept only up to the limit.
#include "memory/pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace isthmus::memory {
namespace {

TEST(Pool, LoansAreLargeEnoughAndAligned) {
  Pool pool;
  for (size_t bytes = 1; bytes < 70'000; bytes = bytes * 5 / 4 + 1) {
    auto block = pool.lend(bytes);
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(block->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 64, 0U);
    std::memset(block->data(), 0xAB, bytes);  // the sanitizers see a block that is too small
    EXPECT_GE(pool.counters().lent_bytes, bytes);
    EXPECT_LE(pool.counters().lent_bytes, std::max<size_t>(512, bytes * 2));
  }
  EXPECT_EQ(pool.counters().lent_bytes, 0U);
}

TEST(Pool, ReusesAfterWarmUp) {
  Pool pool;
  { auto warm = pool.lend(100'000); }
  const uint64_t before = pool.counters().system_allocations;
  for (int i = 0; i < 100; ++i) {
    auto block = pool.lend(99'000 + static_cast<size_t>(i));
    ASSERT_TRUE(block.ok());
  }
  EXPECT_EQ(pool.counters().system_allocations, before);
}

TEST(Pool, KeepsNoMoreThanItsLimit) {
  Pool pool(4096);
  {
    auto a = pool.lend(4096);
    auto b = pool.lend(4096);
  }
  EXPECT_LE(pool.counters().idle_bytes, 4096U);
}

TEST(Pool, ImpossibleSizesAreRefused) {
  Pool pool;
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 300, SIZE_MAX / 2}) {
    const auto block = pool.lend(bytes);
    ASSERT_FALSE(block.ok()) << bytes;
    EXPECT_EQ(block.status().code(), Code::system_error);
  }
  EXPECT_EQ(pool.counters().lent_bytes, 0U);
}

TEST(Pool, EmptyLoanIsEmpty) {
  Pool pool;
  auto block = pool.lend(0);
  ASSERT_TRUE(block.ok());
  EXPECT_FALSE(static_cast<bool>(*block));
}

TEST(Pool, MovedBlockIsGivenBackOnce) {
  Pool pool;
  Block outer;
  {
    auto inner = pool.lend(1000);
    outer = std::move(*inner);
  }
  EXPECT_GT(pool.counters().lent_bytes, 0U);
  outer.reset();
  EXPECT_EQ(pool.counters().lent_bytes, 0U);
}

}  // namespace
}  // namespace isthmus::memory
