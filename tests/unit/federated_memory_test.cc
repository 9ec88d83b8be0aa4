// SPDX-License-Identifier: Apache-2.0
// What a cohort's sum holds does not grow with its members, and no size is too large for a number: vectors travel in chunks, and everything
// that counts bytes or elements has 64 bits.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/sanitizers.h"
#include "federated/aggregate_round.h"

namespace isthmus::federated {
namespace {

constexpr uint32_t kChunk = 256 << 10;
constexpr uint64_t kShrink = kSanitized ? 8 : 1;  // of vectors, where a thousand of them would take minutes

/// Peak resident bytes of a process that adds so many contributions of `elements`; 0: it failed.
uint64_t peak_bytes(uint32_t members, uint64_t elements, bool masked_words) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto thc = codec::make_thc(*codec::parse_thc("thc"), 1000).value();
    RoundRules rules{.ranks = 1000,
                     .quorum = members,
                     .deadline_ns = kNever,
                     .limit_ns = kNever,
                     .chunk_elements = kChunk,
                     .max_elements = elements,
                     .group = GroupRules{}};
    Round round(1, *thc, kernels::select_target(), rules, [](uint32_t) { return std::string(); });
    const DataType type = masked_words ? DataType::uint32 : DataType::float32;
    const AggregateGrid grid(*thc, elements, kChunk, masked_words ? Form::integers : Form::indices, kMaxWordBits);
    const std::vector<std::byte> scales(4 * grid.groups()), payload(grid.index_bytes(0), std::byte{0x21});
    bool ok = true;
    for (uint32_t rank = 0; rank < 1000; ++rank) round.expect(rank, rank < members);
    for (uint32_t rank = 0; rank < members; ++rank) ok = ok && round.offer(rank, {.count = elements, .type = type}, scales, 0).ok();
    while (round.poll(0)) continue;
    for (uint32_t rank = 0; rank < members; ++rank) {
      for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk)
        ok = ok && round.add(rank, chunk, std::span(payload).first(grid.index_bytes(chunk)), 0, 1).ok();
      while (round.poll(0)) continue;
    }
    while (round.poll(0)) continue;
    ok = ok && round.outcome()->finished && round.outcome()->weight_sum == members;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const uint64_t peak = ok ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
    _exit(::write(ends[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
  }
  close(ends[1]);
  uint64_t peak = 0;
  EXPECT_EQ(read(ends[0], &peak, sizeof peak), static_cast<ssize_t>(sizeof peak));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return peak;
}

TEST(GroupMemory, DoesNotGrowWithItsMembers) {
  constexpr uint64_t kElements = (20 << 20) / kShrink;  // 10 MiB of indices each
  const uint64_t few = peak_bytes(10, kElements, false);
  ASSERT_GT(few, 0U);
  for (const uint32_t members : {100U, 1000U}) {
    const uint64_t many = peak_bytes(members, kElements, false);
    std::printf("%u contributions of %llu elements: peak %.1f MiB, with 10: %.1f MiB\n", members,
                static_cast<unsigned long long>(kElements), many / 1048576.0, few / 1048576.0);
    EXPECT_GT(many, 0U);
    EXPECT_LT(static_cast<double>(many), 1.05 * static_cast<double>(few));
  }
}

TEST(GroupMemory, WordsDoNotGrowWithMembersEither) {
  constexpr uint64_t kElements = (5 << 19) / kShrink;  // 10 MiB of words each
  const uint64_t few = peak_bytes(10, kElements, true), many = peak_bytes(300, kElements, true);
  EXPECT_GT(many, 0U);
  EXPECT_LT(static_cast<double>(many), 1.05 * static_cast<double>(few));
}

TEST(GroupSizes, AroundTwoToTheThirtyOneAreLikeOthers) {
  const auto thc = codec::make_thc(*codec::parse_thc("thc"), 4).value();
  constexpr uint64_t kEdge = uint64_t{1} << 31;
  // Bytes of float vectors, of indices and of words on both sides of 2^31.
  for (const uint64_t elements : {kEdge / 4 - 1, kEdge / 4, kEdge / 4 + 1, kEdge - 1, kEdge, kEdge + 1, 2 * kEdge - 1, 2 * kEdge + 1}) {
    for (const Form form : {Form::indices, Form::levels, Form::integers}) {
      const AggregateGrid grid(*thc, elements, kChunk, form, form == Form::integers ? 32 : 6);
      uint64_t sum = 0, words = 0, groups = 0;
      for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
        EXPECT_EQ(grid.begin(chunk), sum);
        EXPECT_TRUE(form == Form::integers || grid.first_group(chunk) == groups);
        sum += grid.elements(chunk);
        words += grid.words(chunk);
        groups += form == Form::integers ? 0 : thc->groups(grid.elements(chunk));
        EXPECT_LE(grid.index_bytes(chunk), size_t{4} * kChunk);
      }
      EXPECT_EQ(sum, elements);
      EXPECT_EQ(grid.groups(), groups);
      EXPECT_GE(words, elements);
      EXPECT_LT(words, elements + codec::kUnitElements);
    }
  }
}

}  // namespace
}  // namespace isthmus::federated
