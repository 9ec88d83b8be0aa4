// SPDX-License-Identifier: Apache-2.0
// Compressed algorithms beside their proofs (tests/plan): all give the same bits, averages cost no pass of their own, one rank compresses
// nothing; and which of them a call gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "codec/thc.h"
#include "collectives/registry.h"
#include "collectives/select.h"
#include "plan/builder.h"
#include "plan/symbolic.h"
#include "plan/walk.h"
#include "toy_codec.h"
#include "worlds.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Coding;
using plan::kToyCodec;
using plan::Plan;
using plan::Shape;
using plan::StepKind;
using testing::HasSubstr;

std::vector<Plan> world_of(const Algorithm& algorithm, const Shape& shape) {
  auto built = plan::build_world(algorithm, shape);
  EXPECT_TRUE(built.ok()) << built.status().text();
  return built.ok() ? std::move(*built) : std::vector<Plan>();
}

/// By cell, what the first rank that has it in `out` ends with: equal numbers are equal bits.
std::vector<uint64_t> results(const std::vector<Plan>& world, uint64_t seed) {
  auto walk = plan::Walk::start(world, uint64_t{1} << 20, plan::Reads::pushed);
  EXPECT_TRUE(walk.ok()) << walk.status().text();
  plan::SymbolicRun run(std::move(*walk));
  const Status status = run.run(seed);
  EXPECT_TRUE(status.ok()) << status.text();
  std::vector<uint64_t> identities(world[0].grid.cells(), 0);
  for (uint32_t rank = 0; rank < world.size(); ++rank) {
    const plan::Region& out = world[rank].regions[plan::kOut];
    for (uint32_t cell = out.begin; cell < out.end; ++cell) identities[cell] = run.values().identity(run.at(rank, plan::kOut, cell));
  }
  return identities;
}

/// Segments that give an algorithm's plans a grid of `cells` cells a block, or 0.
uint32_t segments_for(const Algorithm& algorithm, Shape shape, uint32_t cells) {
  for (shape.segments = 1; shape.segments <= cells; ++shape.segments) {
    if (!allows_segments(algorithm, shape.segments)) return 0;
    const auto plan = plan::build(algorithm, shape);
    if (plan.ok() && plan->grid.cells_per_block == cells) return shape.segments;
  }
  return 0;
}

TEST(Compressed, AllThatAddGiveTheSameBits) {
  const std::vector<int32_t> sites = {0, 0, 0, 1, 1, 1, 1, 1};
  for (const auto& [collective, cells] : {std::pair{Collective::allreduce, 24U}, std::pair{Collective::reduce_scatter, 3U}}) {
    std::vector<uint64_t> wanted;
    for (const Algorithm* algorithm : compressed_registry()) {
      if (algorithm->collective != collective || algorithm->needs.coding != Coding::sums) continue;
      SCOPED_TRACE(fmt::format("{} {}", name_of(collective), algorithm->name));
      Shape shape = {.collective = collective, .group = {.ranks = {}, .size = 8}, .codec = &kToyCodec, .sites = sites};
      shape.segments = segments_for(*algorithm, shape, cells);
      ASSERT_GT(shape.segments, 0U);
      const std::vector<uint64_t> found = results(world_of(*algorithm, shape), 1);
      if (wanted.empty()) wanted = found;
      EXPECT_EQ(found, wanted);
    }
    EXPECT_FALSE(wanted.empty());
  }
}

TEST(Compressed, HierarchiesSendEachSitesSumOnce) {
  const std::vector<int32_t> sites = {0, 1, 1, 0, 1, 1, 0, 1};  // of 3 and 5 ranks
  const auto thc = codec::make_thc({.granularity = 15, .group = 1024}, 8);
  ASSERT_TRUE(thc.ok()) << thc.status().text();
  const codec::Codec& codec = (*thc)->codec;
  constexpr uint64_t kElements = 48 * 1024;
  const auto bytes = [&](uint32_t summands) { return codec.encoded_bytes(codec, kElements, summands); };
  const uint64_t scales = codec.scale_bytes(codec, kElements);
  Shape shape = {.group = {.ranks = {}, .size = 8}, .codec = &codec, .sites = sites};

  bool levels_tell = true;
  const auto whole = world_of(*find_compressed(Collective::allreduce, "hierarchy"), shape);
  EXPECT_EQ(plan::bytes_across(whole, sites, kElements, sizeof(float), levels_tell), (bytes(3) + bytes(5)) / 2 + bytes(8) + 2 * scales)
      << "half of each site's sum, each half of the total, and the scales of both";
  shape.collective = Collective::reduce_scatter;
  const auto scattered = world_of(*find_compressed(Collective::reduce_scatter, "hierarchy"), shape);
  EXPECT_EQ(plan::bytes_across(scattered, sites, kElements / 8, sizeof(float), levels_tell), (5 * bytes(3) + 3 * bytes(5)) / 8 + 2 * scales)
      << "the small site's sums of the large one's blocks, and the other way around";
  EXPECT_TRUE(levels_tell);
}

class CompressedTest : public testing::TestWithParam<const Algorithm*> {};

Shape shape_for(const Algorithm& algorithm, int32_t ranks) {
  const codec::Codec* codec = algorithm.needs.coding == Coding::sums ? &kToyCodec : codec::find("int8");
  return {.collective = algorithm.collective, .group = {.ranks = {}, .size = ranks}, .codec = codec};
}

TEST_P(CompressedTest, AveragesWithoutAPassOfItsOwn) {
  Shape shape = shape_for(*GetParam(), 5);
  shape.op = ReduceOp::avg;
  for (const Plan& plan : world_of(*GetParam(), shape)) {
    EXPECT_TRUE(std::none_of(plan.steps.begin(), plan.steps.end(), [](const plan::Step& step) { return step.kind == StepKind::map; }));
  }
}

TEST_P(CompressedTest, OneRankKeepsWhatItHas) {
  const std::vector<Plan> world = world_of(*GetParam(), shape_for(*GetParam(), 1));
  ASSERT_EQ(world[0].steps.size(), 1U);
  EXPECT_EQ(world[0].steps[0].kind, StepKind::copy);
}

TEST_P(CompressedTest, EncodesEachElementOnce) {
  for (const Plan& plan : world_of(*GetParam(), shape_for(*GetParam(), 5))) {
    std::vector<int> encoded(plan.grid.cells(), 0);
    for (const plan::Step& step : plan.steps) {
      if (step.kind != StepKind::encode || step.src_region != plan::kIn) continue;
      for (uint32_t cell = 0; cell < step.cells; ++cell) ++encoded[step.src_begin + cell];
    }
    for (const int times : encoded) EXPECT_LE(times, 1);
  }
}

std::string test_name(const testing::TestParamInfo<const Algorithm*>& info) {
  return fmt::format("{}_{}", name_of(info.param->collective), info.param->name);
}

INSTANTIATE_TEST_SUITE_P(Registry, CompressedTest, testing::ValuesIn(compressed_registry().begin(), compressed_registry().end()),
                         test_name);

// --- the choice --------------------------------------------------------------------------------------------------------------------

struct Call {
  Collective collective = Collective::allreduce;
  const codec::Codec* codec = &kToyCodec;
  int32_t ranks = 8;
  std::vector<int32_t> sites = {};
  uint64_t elements = 1 << 20;
};

/// "direct/2", or the error.
std::string chosen(const Call& call, std::string_view forced = {}) {
  const auto choice = choose_compressed(call.collective, *call.codec, call.ranks, call.sites, call.elements, forced);
  return choice.ok() ? fmt::format("{}/{}", choice->algorithm->name, choice->segments) : choice.status().text();
}

TEST(ChooseCompressed, MakesCellsOfUpTo64KiElements) {
  EXPECT_EQ(chosen({.elements = 0}), "direct/1");
  EXPECT_EQ(chosen({.elements = 1 << 19}), "direct/1");
  EXPECT_EQ(chosen({.elements = (1 << 19) + 8}), "direct/2");
  EXPECT_EQ(chosen({.elements = 1 << 21}), "direct/4");
  EXPECT_EQ(chosen({.elements = uint64_t{1} << 40}), "direct/64");
  EXPECT_EQ(chosen({.ranks = 32, .elements = uint64_t{1} << 40}), "direct/32") << "plans stay small";
  EXPECT_EQ(chosen({.ranks = 2000, .elements = uint64_t{1} << 40}), "halving/1");
}

TEST(ChooseCompressed, GoesByCodecRanksAndSites) {
  EXPECT_EQ(chosen({.sites = {0, 0, 0, 0, 1, 1, 1, 1}}), "hierarchy/2");
  EXPECT_EQ(chosen({.sites = {5, 0, 5, 0, 5, 0, 5, 0}}), "hierarchy/2");
  EXPECT_EQ(chosen({.sites = {0, 1, 2, 3, 4, 5, 6, 7}}), "direct/2") << "nobody is close to anybody";
  EXPECT_EQ(chosen({.sites = {3, 3, 3, 3, 3, 3, 3, 3}}), "direct/2");
  EXPECT_EQ(chosen({.ranks = 32}), "direct/1");
  EXPECT_EQ(chosen({.ranks = 33}), "halving/1");
  EXPECT_EQ(chosen({.collective = Collective::reduce_scatter, .ranks = 33}), "halving/1");
  EXPECT_EQ(chosen({.codec = codec::find("int8"), .sites = {0, 0, 0, 0, 1, 1, 1, 1}}), "two_shot/2");
  EXPECT_EQ(chosen({.collective = Collective::reduce_scatter, .codec = codec::find("bf16")}), "one_shot/2");
  EXPECT_EQ(chosen({.ranks = 1}), "direct/16");
}

TEST(ChooseCompressed, TakesTheUsersWord) {
  EXPECT_EQ(chosen({}, "ring"), "ring/2");
  EXPECT_EQ(chosen({.sites = {0, 0, 0, 0, 1, 1, 1, 1}}, "root/1"), "root/1");
  EXPECT_THAT(chosen({.collective = Collective::reduce_scatter, .codec = codec::find("bf16")}, "two_shot/4"),
              HasSubstr("reduce_scatter has no compressed algorithm two_shot; with codec bf16 it has one_shot"));
  EXPECT_EQ(chosen({.collective = Collective::reduce_scatter, .codec = codec::find("bf16")}, "two_shot/4,one_shot/4"), "one_shot/4");
  EXPECT_EQ(chosen({.collective = Collective::reduce_scatter, .codec = codec::find("bf16")}, "allreduce:two_shot"), "one_shot/2");
  EXPECT_THAT(chosen({}, "two_shot"),
              HasSubstr("allreduce two_shot has no use for codec toy; these have: direct, halving, ring, root, hierarchy"));
  EXPECT_THAT(chosen({.codec = codec::find("int4")}, "ring"), HasSubstr("ring has no use for codec int4; these have: two_shot"));
  EXPECT_EQ(chosen({}, "direct/5"), "direct/5");
  EXPECT_EQ(chosen({}, "allreduce:direct/3,reduce_scatter:direct/4"), "direct/3");
  EXPECT_EQ(chosen({.collective = Collective::reduce_scatter}, "allreduce:direct/3,reduce_scatter:direct/4"), "direct/4");
  EXPECT_THAT(chosen({}, "drict"), HasSubstr("no compressed algorithm is called \"drict\"; for codec toy, allreduce has direct"));
  EXPECT_THAT(chosen({}, "direct/65"), HasSubstr("does not run in 65 segments"));
  EXPECT_THAT(chosen({.collective = Collective::broadcast}), HasSubstr("broadcast cannot be carried out with codec toy"));
}

}  // namespace
}  // namespace isthmus::collectives
