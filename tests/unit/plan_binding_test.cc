// SPDX-License-Identifier: Apache-2.0
// Binding a count to the grid: even splits, offsets, sizes of encoded and scale regions; and which memory cells are one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "plan/memory_map.h"
#include "plan/plan.h"
#include "toy_codec.h"

namespace isthmus::plan {
namespace {

TEST(PlanBinding, SplitsAreEvenAlignedAndComplete) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{64}, uint64_t{1009}, uint64_t{1} << 60}) {
    for (const uint32_t cells : {1U, 3U, 8U, 100U}) {
      for (const uint32_t align : {1U, 16U}) {
        EXPECT_EQ(split_point(count, cells, align, 0), 0U);
        EXPECT_EQ(split_point(count, cells, align, cells), count);
        uint64_t smallest = UINT64_MAX, largest = 0;
        for (uint32_t cell = 0; cell < cells; ++cell) {
          const uint64_t begin = split_point(count, cells, align, cell), end = split_point(count, cells, align, cell + 1);
          ASSERT_LE(begin, end);
          if (end != count) {
            EXPECT_EQ(end % align, 0U);
            smallest = std::min(smallest, end - begin);
          }
          largest = std::max(largest, end - begin);
        }
        EXPECT_TRUE(smallest == UINT64_MAX || largest - smallest <= align) << count << " in " << cells;
      }
    }
  }
}

TEST(PlanBinding, BlocksRepeatTheSplit) {
  Binding binding;
  bind({.blocks = 3, .cells_per_block = 4, .align = 1}, 10, binding);
  EXPECT_EQ(binding.offsets, (std::vector<uint64_t>{0, 3, 6, 8, 10, 13, 16, 18, 20, 23, 26, 28, 30}));
  EXPECT_EQ(binding.elements(2, 5), 7U);
  const uint64_t* before = binding.offsets.data();
  bind({.blocks = 3, .cells_per_block = 4, .align = 1}, 99, binding);
  EXPECT_EQ(binding.offsets.data(), before);  // no allocation
}

TEST(PlanBinding, EncodedCellsAreSizedOneByOne) {
  Plan plan;
  plan.codec = &kToyCodec;  // blocks of 4 elements take 2 bytes, or 4 where more than 15 are added up
  plan.grid = {.blocks = 1, .cells_per_block = 3, .align = 4};
  plan.regions = {{.place = Place::in, .end = 3},
                  {.place = Place::out, .end = 3},
                  {.layout = Layout::encoded, .summands = 2, .begin = 1, .end = 3},
                  {.layout = Layout::encoded, .summands = 16, .begin = 0, .end = 3},
                  {.layout = Layout::scale, .begin = 0, .end = 3}};
  Binding binding;
  bind(plan.grid, 18, binding);  // cells of 8, 8 and 2 elements
  EXPECT_EQ(chunk_bytes(plan, {kIn, 1, 3}, binding, 4), 40U);
  EXPECT_EQ(chunk_bytes(plan, {2, 1, 3}, binding, 4), 4U + 2U);
  EXPECT_EQ(chunk_offset_bytes(plan, {2, 2, 3}, binding, 4), 4U);
  EXPECT_EQ(chunk_bytes(plan, {3, 0, 3}, binding, 4), 8U + 8U + 4U);
  EXPECT_EQ(chunk_bytes(plan, {4, 0, 3}, binding, 4), (2U + 2U + 1U) * sizeof(float));
  bind(plan.grid, 4, binding);  // two cells are empty and take nothing
  EXPECT_EQ(chunk_bytes(plan, {3, 0, 3}, binding, 4), 4U);
}

TEST(PlanMemoryMap, InAndOutAreOneMemoryOnlyInPlace) {
  Plan plan;
  plan.grid = {.blocks = 4, .cells_per_block = 1, .align = 1};
  plan.regions = {{.place = Place::in, .end = 4}, {.place = Place::out, .begin = 2, .end = 3}, {.begin = 2, .end = 3}};
  const MemoryMap apart(plan);
  EXPECT_EQ(apart.cells(), 4U + 1U + 1U);
  EXPECT_NE(apart.first({kIn, 2, 3}), apart.first({kOut, 2, 3}));
  plan.in_place = true;
  const MemoryMap together(plan);
  EXPECT_EQ(together.cells(), 4U + 1U);
  EXPECT_EQ(together.first({kIn, 2, 3}), together.first({kOut, 2, 3}));
  EXPECT_EQ(together.first({2, 2, 3}), 4U);
}

}  // namespace
}  // namespace isthmus::plan
