// SPDX-License-Identifier: Apache-2.0
// HugePages: memory is moved when it has been read often enough, a page at a time, and only where nothing grows by it.
#include "memory/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "memory_huge_pages.h"

namespace isthmus::memory {
namespace {

using testing::kPage;
using testing::Memory;
using testing::system_moves;

std::vector<uintptr_t>& moved_pages() {
  static std::vector<uintptr_t> pages;
  return pages;
}

/// Counts only: the memory need not exist.
HugePages counting() {
  moved_pages().clear();
  return HugePages([](uintptr_t address) { moved_pages().push_back(address); });
}

std::span<const std::byte> memory_at(uintptr_t address, uint64_t bytes) { return {reinterpret_cast<const std::byte*>(address), bytes}; }

TEST(HugePages, MovesWhatIsReadAgainAndAgain) {
  HugePages pages = counting();
  for (uint64_t reading = 1; reading < HugePages::kReadings; ++reading) pages.used(memory_at(8 * kPage, kPage));
  EXPECT_TRUE(moved_pages().empty());
  pages.used(memory_at(8 * kPage, kPage));
  EXPECT_EQ(moved_pages(), std::vector<uintptr_t>{8 * kPage});
  for (uint64_t reading = 1; reading < HugePages::kReadingsBetween; ++reading) pages.used(memory_at(8 * kPage, kPage));
  EXPECT_EQ(moved_pages().size(), 1U);
  pages.used(memory_at(8 * kPage, kPage));
  EXPECT_EQ(moved_pages().size(), 2U);
}

TEST(HugePages, CountsBytesNotCalls) {
  HugePages pages = counting();
  const uint64_t quarter = kPage / 4;
  for (uint64_t reading = 0; reading < 4 * HugePages::kReadings - 1; ++reading) pages.used(memory_at(8 * kPage + quarter, quarter));
  EXPECT_TRUE(moved_pages().empty());
  pages.used(memory_at(8 * kPage + quarter, quarter));
  EXPECT_EQ(moved_pages(), std::vector<uintptr_t>{8 * kPage});
  pages.used({});
}

TEST(HugePages, MovesOnePageAtATime) {
  HugePages pages = counting();
  for (uint64_t reading = 1; reading < HugePages::kReadings; ++reading) pages.used(memory_at(8 * kPage, 3 * kPage));
  EXPECT_TRUE(moved_pages().empty());
  for (uint64_t reading = 0; reading < 4; ++reading) pages.used(memory_at(8 * kPage, 3 * kPage));
  EXPECT_EQ(moved_pages(), (std::vector<uintptr_t>{8 * kPage, 9 * kPage, 10 * kPage}));
}

TEST(HugePages, ForgetsWhatOthersCrowdOut) {
  HugePages pages = counting();
  for (uint64_t reading = 1; reading < HugePages::kReadings; ++reading) pages.used(memory_at(8 * kPage, kPage));
  pages.used(memory_at((8 + 1024) * kPage, kPage));
  pages.used(memory_at(8 * kPage, kPage));
  EXPECT_TRUE(moved_pages().empty());
}

TEST(HugePages, TheSystemMovesThem) {
  if (!system_moves()) GTEST_SKIP() << "this system does not move memory into huge pages, or does so by itself";
  const Memory memory;
  for (uint64_t at = 0; at < kPage; ++at) memory.page()[at] = static_cast<std::byte>(at % 251);
  HugePages pages;
  for (uint64_t reading = 1; reading < HugePages::kReadings; ++reading) pages.used({memory.page(), kPage});
  EXPECT_EQ(memory.huge_kib(), 0U);
  pages.used({memory.page(), kPage});
  EXPECT_EQ(memory.huge_kib(), kPage >> 10);
  for (uint64_t at = 0; at < kPage; ++at) ASSERT_EQ(memory.page()[at], static_cast<std::byte>(at % 251)) << at;
}

TEST(HugePages, NothingGrows) {
  const Memory memory;
  std::memset(memory.page(), 1, kPage / 2);  // the rest was never touched
  HugePages::move(reinterpret_cast<uintptr_t>(memory.page()));
  EXPECT_EQ(memory.huge_kib(), 0U);
}

TEST(HugePages, LeavesAloneWhatIsNotOurs) {
  const Memory shared(MAP_SHARED | MAP_ANONYMOUS);
  std::memset(shared.page(), 1, kPage);
  HugePages::move(reinterpret_cast<uintptr_t>(shared.page()));
  HugePages::move(kPage);  // nothing is mapped there
  EXPECT_EQ(shared.huge_kib(), 0U);
  EXPECT_EQ(std::count(shared.page(), shared.page() + kPage, std::byte{1}), static_cast<ptrdiff_t>(kPage));
}

}  // namespace
}  // namespace isthmus::memory
