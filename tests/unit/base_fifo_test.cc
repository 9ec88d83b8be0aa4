// SPDX-License-Identifier: Apache-2.0
// Fifo against std::deque under random pushes and pops, and its promise to keep what it frees.
#include "base/fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

namespace isthmus {
namespace {

TEST(Fifo, AgreesWithDeque) {
  std::mt19937 random(1);
  Fifo<int> fifo;
  std::deque<int> model;
  for (int i = 0; i < 20000; ++i) {
    if (random() % (i % 2000 < 1000 ? 3 : 2) != 0 || model.empty()) {
      fifo.push(i);
      model.push_back(i);
    } else {
      ASSERT_EQ(fifo.front(), model.front());
      ASSERT_EQ(fifo.pop(), model.front());
      model.pop_front();
    }
    ASSERT_EQ(fifo.size(), model.size());
  }
  while (!model.empty()) {
    ASSERT_EQ(fifo.pop(), model.front());
    model.pop_front();
  }
  EXPECT_TRUE(fifo.empty());
}

TEST(Fifo, HoldsMoveOnlyValuesAndLetsThemGo) {
  Fifo<std::shared_ptr<int>> fifo;
  auto value = std::make_shared<int>(7);
  for (int i = 0; i < 20; ++i) fifo.push(value);
  EXPECT_EQ(value.use_count(), 21);
  EXPECT_EQ(*fifo.pop(), 7);
  EXPECT_EQ(value.use_count(), 20) << "a popped element must not linger in its slot";
  fifo.clear();
  EXPECT_EQ(value.use_count(), 1);
}

TEST(Fifo, StopsAllocatingOnceWarm) {
  Fifo<int> fifo;
  for (int i = 0; i < 5; ++i) fifo.push(i);
  const int* slot = &fifo.front();
  for (int i = 0; i < 5; ++i) (void)fifo.pop();
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 8; ++i) fifo.push(i);
    ASSERT_LT(std::abs(&fifo.front() - slot), 8) << "the ring moved";
    for (int i = 0; i < 8; ++i) ASSERT_EQ(fifo.pop(), i);
  }
}

}  // namespace
}  // namespace isthmus
