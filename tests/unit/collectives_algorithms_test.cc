// SPDX-License-Identifier: Apache-2.0
// Every algorithm of the registry is proved (symbolically, and free of deadlocks with and without reads in place) for some rank counts,
// all roots, buffer modes and ops, and counts that leave cells empty; tests/plan goes on to many ranks. Also what plans cost in scratch.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <vector>

#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/check.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Plan;
using plan::Shape;

constexpr uint64_t kCounts[] = {0, 1, 5, 613, 4099};

/// The plans of all ranks, or nothing (a test failure then).
std::vector<Plan> plans_of(const Algorithm& algorithm, Shape shape) {
  std::vector<Plan> world;
  for (shape.group.position = 0; shape.group.position < shape.group.size; ++shape.group.position) {
    auto built = plan::build(algorithm, shape);
    EXPECT_TRUE(built.ok()) << built.status().text();
    if (!built.ok()) return {};
    world.push_back(std::move(*built));
  }
  return world;
}

void prove(const Algorithm& algorithm, const Shape& shape) {
  SCOPED_TRACE(fmt::format("{} {} over {} ranks, root {}, {} place, {}{}, {} segments", name_of(algorithm.collective), algorithm.name,
                           shape.group.size, shape.root, shape.in_place ? "in" : "out of", name_of(shape.op),
                           shape.map_in ? " of mapped input" : "", shape.segments));
  const std::vector<Plan> world = plans_of(algorithm, shape);
  ASSERT_FALSE(world.empty());
  for (uint64_t count : kCounts) {
    const Status symbolic = plan::check_symbolic(world, count, count + static_cast<uint64_t>(shape.group.size));
    ASSERT_TRUE(symbolic.ok()) << symbolic.text();
    for (plan::Reads reads : {plan::Reads::pushed, plan::Reads::in_place}) {
      const Status deadlock = plan::check_deadlock(world, count, reads);
      ASSERT_TRUE(deadlock.ok()) << deadlock.text();
    }
  }
}

/// Shapes that differ in what the algorithm may see: op and map, buffers, segments, root.
std::vector<Shape> shapes_of(const Algorithm& algorithm, int32_t ranks) {
  struct Reduction {
    ReduceOp op;
    bool map_in;
  };
  std::vector<Reduction> reductions = {{ReduceOp::sum, false}};
  if (is_reducing(algorithm.collective)) reductions.insert(reductions.end(), {{ReduceOp::avg, false}, {ReduceOp::sum, true}});
  const std::vector<uint32_t> segments = algorithm.tunables.empty() ? std::vector<uint32_t>{1} : std::vector<uint32_t>{1, 3};
  const int32_t roots = is_rooted(algorithm.collective) ? ranks : 1;
  std::vector<Shape> shapes;
  for (const Reduction& reduction : reductions) {
    for (bool in_place : {false, true}) {
      if (in_place && !may_be_in_place(algorithm.collective)) continue;
      for (uint32_t count : segments) {
        for (int32_t root = 0; root < roots; ++root) {
          shapes.push_back({.collective = algorithm.collective,
                            .group = {.ranks = {}, .size = ranks},
                            .root = is_rooted(algorithm.collective) ? root : -1,
                            .in_place = in_place,
                            .op = reduction.op,
                            .map_in = reduction.map_in,
                            .segments = count});
        }
      }
    }
  }
  return shapes;
}

class AlgorithmTest : public testing::TestWithParam<const Algorithm*> {};

TEST_P(AlgorithmTest, IsProved) {
  for (int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 13, 15}) {
    for (const Shape& shape : shapes_of(*GetParam(), ranks)) {
      prove(*GetParam(), shape);
      if (HasFatalFailure()) return;
    }
  }
}

std::string test_name(const testing::TestParamInfo<const Algorithm*>& info) {
  return fmt::format("{}_{}", name_of(info.param->collective), info.param->name);
}

INSTANTIATE_TEST_SUITE_P(Registry, AlgorithmTest, testing::ValuesIn(registry().begin(), registry().end()), test_name);

TEST(Algorithms, ServeASubsetOfTheRanks) {
  const std::vector<int32_t> members = {6, 2, 5};
  for (const Algorithm* algorithm : registry()) {
    Shape shape = {.collective = algorithm->collective,
                   .group = {.ranks = members, .size = 3, .position = 1},
                   .root = is_rooted(algorithm->collective) ? 2 : -1};
    plan::Builder builder(shape, algorithm->name, 8);
    algorithm->emit(shape, builder);
    const auto built = builder.finish();
    ASSERT_TRUE(built.ok()) << built.status().text();
    EXPECT_EQ(built->rank, 2);
    for (const plan::PeerTraffic& traffic : built->peers) EXPECT_TRUE(traffic.peer == 6 || traffic.peer == 5);
  }
}

/// Elements of scratch for `count` elements a block.
uint64_t scratch_elements(const Plan& plan, uint64_t count) {
  plan::Binding binding;
  plan::bind(plan.grid, count, binding);
  uint64_t elements = 0;
  for (const plan::Region& region : plan.regions) {
    if (region.place == plan::Place::scratch) elements += binding.elements(region.begin, region.end);
  }
  return elements;
}

TEST(Algorithms, ReduceScatterNeedsLittleScratch) {
  constexpr int32_t kRanks = 16;
  constexpr uint64_t kCount = 1600;
  struct Limit {
    std::string_view name;
    uint64_t blocks;
  };
  for (const Limit& limit : {Limit{"ring", 2}, Limit{"direct", 1}, Limit{"halving", kRanks / 2}}) {
    const Algorithm* algorithm = find(Collective::reduce_scatter, limit.name);
    ASSERT_NE(algorithm, nullptr);
    for (const Plan& plan : plans_of(*algorithm, {.collective = Collective::reduce_scatter, .group = {.ranks = {}, .size = kRanks}})) {
      EXPECT_LE(scratch_elements(plan, kCount), limit.blocks * kCount) << limit.name << " at rank " << plan.rank;
    }
  }
}

TEST(Algorithms, TwoRanksExchangeTheirHalvesInPlace) {
  for (std::string_view name : {"ring", "direct", "halving_doubling"}) {
    for (bool in_place : {false, true}) {
      const Algorithm* algorithm = find(Collective::allreduce, name);
      ASSERT_NE(algorithm, nullptr);
      for (const Plan& plan : plans_of(*algorithm, {.group = {.ranks = {}, .size = 2}, .in_place = in_place})) {
        EXPECT_EQ(scratch_elements(plan, 64), 0u) << name;
        int sends = 0;
        for (const plan::Step& step : plan.steps) {
          if (step.kind != plan::StepKind::send) continue;
          ++sends;
          EXPECT_TRUE(step.flags & plan::kReadInPlace) << name << (in_place ? " in place" : " out of place");
        }
        EXPECT_EQ(sends, 2) << name;
        EXPECT_EQ(plan.steps.size(), 4u) << name;
      }
    }
  }
}

}  // namespace
}  // namespace isthmus::collectives
