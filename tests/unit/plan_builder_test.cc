// SPDX-License-Identifier: Apache-2.0
// What the builder makes of straight-line calls: windows, dependencies, maps, inbox slots, marks, messages and its errors.
#include "plan/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/bounds.h"
#include "toy_codec.h"

namespace isthmus::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Shape shape_of(Collective collective, int32_t size, int32_t position, int32_t root = -1) {
  return {.collective = collective, .group = {.ranks = {}, .size = size, .position = position}, .root = root};
}

Plan finished(Builder& b) {
  auto plan = b.finish();
  EXPECT_TRUE(plan.ok()) << plan.status().text();
  return plan.ok() ? std::move(*plan) : Plan{};
}

std::string error_of(Builder& b) {
  auto plan = b.finish();
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().text();
}

std::vector<uint32_t> deps(const Plan& plan, size_t step) {
  const auto found = plan.deps_of(plan.steps[step]);
  std::vector<uint32_t> list(found.begin(), found.end());
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<StepKind> kinds(const Plan& plan) {
  std::vector<StepKind> list;
  for (const Step& step : plan.steps) list.push_back(step.kind);
  return list;
}

/// A ring allreduce over one cell per rank, as an algorithm would write it.
void ring_allreduce(const Shape& s, Builder& b) {
  const Group& g = s.group;
  const auto cell = [&](int32_t at) { return static_cast<uint32_t>(g.wrap(g.position + at)); };
  b.split(static_cast<uint32_t>(g.size));
  const Chunk out = b.out(0, b.cells());
  for (int32_t k = 0; k + 1 < g.size; ++k) {
    b.send(g.next(), b.partial(out, cell(-k), cell(-k) + 1));
    const uint32_t c = cell(-k - 1);
    b.recv_reduce(g.previous(), b.out(c, c + 1), b.in(c, c + 1));
  }
  b.complete(b.out(cell(1), cell(1) + 1));
  for (int32_t k = 0; k + 1 < g.size; ++k) {
    b.send(g.next(), b.out(cell(1 - k), cell(1 - k) + 1));
    b.recv(g.previous(), b.out(cell(-k), cell(-k) + 1));
  }
}

// --- windows ---------------------------------------------------------------------------------------------------------------

TEST(PlanBuilder, WindowsFollowTheCollective) {
  const auto windows = [](Collective collective, int32_t root) {
    Builder b(shape_of(collective, 4, 2, root));
    b.split(3);
    const Plan plan = finished(b);
    return std::vector<uint32_t>{plan.regions[kIn].begin, plan.regions[kIn].end, plan.regions[kOut].begin, plan.regions[kOut].end};
  };
  EXPECT_THAT(windows(Collective::allreduce, -1), ElementsAre(0, 3, 0, 3));
  EXPECT_THAT(windows(Collective::reduce_scatter, -1), ElementsAre(0, 12, 6, 9));
  EXPECT_THAT(windows(Collective::allgather, -1), ElementsAre(6, 9, 0, 12));
  EXPECT_THAT(windows(Collective::alltoall, -1), ElementsAre(0, 12, 0, 12));
  EXPECT_THAT(windows(Collective::broadcast, 2), ElementsAre(0, 3, 0, 3));
  EXPECT_THAT(windows(Collective::broadcast, 0), ElementsAre(0, 0, 0, 3));
  EXPECT_THAT(windows(Collective::reduce, 2), ElementsAre(0, 3, 0, 3));
  EXPECT_THAT(windows(Collective::reduce, 0), ElementsAre(0, 3, 0, 0));
}

TEST(PlanBuilder, AllToAllHasNoInPlaceForm) {
  Shape shape = shape_of(Collective::alltoall, 2, 0);
  shape.in_place = true;
  Builder b(shape);
  EXPECT_THAT(b.finish().status().text(), HasSubstr("alltoall has no in-place form"));
}

TEST(PlanBuilder, PositionsBecomeRanks) {
  const std::vector<int32_t> ranks = {7, 3, 5};
  Shape shape = shape_of(Collective::broadcast, 3, 1, 0);
  shape.group.ranks = ranks;
  Builder b(shape, "test", 8);
  b.recv(0, b.out(0, 1));
  b.send(2, b.out(0, 1));
  const Plan plan = finished(b);
  EXPECT_EQ(plan.rank, 3);
  EXPECT_EQ(plan.ranks, 8);
  EXPECT_EQ(plan.group_size, 3);
  EXPECT_EQ(plan.root, 7);
  EXPECT_EQ(plan.steps[0].peer, 7);
  EXPECT_EQ(plan.steps[1].peer, 5);
}

// --- dependencies ----------------------------------------------------------------------------------------------------------

TEST(PlanBuilder, RingOutOfPlace) {
  const Shape shape = shape_of(Collective::allreduce, 3, 0);
  Builder b(shape, "ring");
  ring_allreduce(shape, b);
  const Plan plan = finished(b);
  ASSERT_EQ(plan.steps.size(), 8U);
  EXPECT_THAT(deps(plan, 0), IsEmpty());       // send in[0]
  EXPECT_THAT(deps(plan, 1), IsEmpty());       // recv_reduce out[2] = in[2] + message
  EXPECT_THAT(deps(plan, 2), ElementsAre(1));  // send out[2]
  EXPECT_THAT(deps(plan, 3), IsEmpty());       // recv_reduce out[1] = in[1] + message
  EXPECT_THAT(deps(plan, 4), ElementsAre(3));  // send out[1]
  EXPECT_THAT(deps(plan, 5), IsEmpty());       // recv out[0]: nobody has touched it
  EXPECT_THAT(deps(plan, 6), ElementsAre(5));  // send out[0]
  EXPECT_THAT(deps(plan, 7), ElementsAre(2));  // recv out[2]: after its partial has left
  for (const Step& step : plan.steps) {
    EXPECT_EQ((step.flags & kReadInPlace) != 0, step.kind == StepKind::send);
  }
  EXPECT_EQ(plan.peers.size(), 2U);
  EXPECT_EQ(plan.peers[0].sends, 4U);
  EXPECT_EQ(plan.peers[1].recvs, 4U);
}

TEST(PlanBuilder, InPlaceCellsAreOneMemory) {
  Shape shape = shape_of(Collective::allreduce, 2, 0);
  shape.in_place = true;
  Builder b(shape);
  b.copy(b.out(0, 1), b.in(0, 1));            // dropped
  b.send(1, b.in(0, 1));                      // 0
  b.recv_reduce(1, b.out(0, 1), b.in(0, 1));  // 1
  b.send(1, b.out(0, 1));                     // 2
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::send, StepKind::recv_reduce, StepKind::send));
  EXPECT_THAT(deps(plan, 1), ElementsAre(0));
  EXPECT_THAT(deps(plan, 2), ElementsAre(1));
}

TEST(PlanBuilder, WritersWaitForReadersAndSuccessorsMirrorDependencies) {
  Builder b(shape_of(Collective::allreduce, 4, 0));
  b.split(4);
  const Chunk t = b.scratch(0, 4);
  b.copy(t, b.in(0, 4));                 // 0
  b.send(1, b.part(t, 0, 2));            // 1
  b.send(2, b.part(t, 1, 3));            // 2
  b.recv(3, b.part(t, 1, 2));            // 3 waits for both readers, not for 0
  b.reduce(b.out(0, 4), b.in(0, 4), t);  // 4 waits for 0 and 3
  const Plan plan = finished(b);
  EXPECT_THAT(deps(plan, 1), ElementsAre(0));
  EXPECT_THAT(deps(plan, 3), ElementsAre(1, 2));
  EXPECT_THAT(deps(plan, 4), ElementsAre(0, 3));
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    for (uint32_t next : plan.successors_of(i)) {
      const auto before = plan.deps_of(plan.steps[next]);
      EXPECT_NE(std::find(before.begin(), before.end(), i), before.end());
    }
  }
  EXPECT_EQ(plan.successors.size(), plan.deps.size());
}

bool all_sends_are_read_in_place(const Plan& plan) {
  return std::all_of(plan.steps.begin(), plan.steps.end(),
                     [](const Step& step) { return step.kind != StepKind::send || (step.flags & kReadInPlace) != 0; });
}

TEST(PlanBuilder, ExchangesInPlaceAreNotReadInPlace) {
  Shape shape = shape_of(Collective::allreduce, 2, 0);
  shape.in_place = true;
  Builder b(shape);
  b.send(1, b.in(0, 1));
  b.recv_reduce(1, b.out(0, 1), b.in(0, 1));
  EXPECT_FALSE(all_sends_are_read_in_place(finished(b)));
}

TEST(PlanBuilder, RotationsInPlaceAreNotReadInPlace) {
  Shape shape = shape_of(Collective::allreduce, 3, 0);
  shape.in_place = true;
  Builder b(shape);
  b.send(1, b.in(0, 1));
  b.recv_reduce(2, b.out(0, 1), b.in(0, 1));
  EXPECT_FALSE(all_sends_are_read_in_place(finished(b)));
}

TEST(PlanBuilder, RingsThatReuseABufferLaterAreReadInPlace) {
  Builder b(shape_of(Collective::reduce_scatter, 4, 0));
  const Chunk relays[] = {b.scratch(0, 1), b.scratch(0, 1)};
  b.send(1, b.in(3, 4));
  b.recv_reduce(3, relays[0], b.in(2, 3));
  for (uint32_t round = 1; round < 4; ++round) {
    b.send(1, relays[(round + 1) % 2]);
    b.recv_reduce(3, relays[round % 2], b.in(2, 3));
  }
  EXPECT_TRUE(all_sends_are_read_in_place(finished(b)));
}

TEST(PlanBuilder, SendsBeforeALocalWriteAreNotReadInPlace) {
  Builder b(shape_of(Collective::allreduce, 2, 0));
  b.copy(b.out(0, 1), b.in(0, 1));
  b.send(1, b.out(0, 1));
  b.reduce(b.out(0, 1), b.out(0, 1), b.in(0, 1));
  EXPECT_FALSE(all_sends_are_read_in_place(finished(b)));
}

// --- inbox -----------------------------------------------------------------------------------------------------------------

TEST(PlanBuilder, SlotsAreReusedInTurnAfterTheirApply) {
  Builder b(shape_of(Collective::reduce, 12, 0, 0));
  b.split(3);
  b.copy(b.out(0, 3), b.in(0, 3));
  for (int32_t peer = 1; peer < 12; ++peer) {
    const uint32_t end = peer == 5 ? 3 : 2;
    b.recv_reduce(peer, b.out(0, end), b.out(0, end));
  }
  const Plan plan = finished(b);
  ASSERT_EQ(plan.slots.size(), kMaxInboxSlots);
  EXPECT_EQ(plan.steps[1].slot_after, kNoStep);
  EXPECT_EQ(plan.steps[9].slot, plan.steps[1].slot);
  EXPECT_EQ(plan.steps[9].slot_after, 1U);
  EXPECT_EQ(plan.slots[plan.steps[1].slot].end, 2U);
  EXPECT_EQ(plan.slots[plan.steps[5].slot].end, 3U);
}

TEST(PlanBuilder, SlotsHoldTheirMessagesForEveryCount) {
  for (uint32_t align : {1U, 4U}) {
    for (uint64_t count = 0; count < 60; ++count) {
      const Grid grid{.blocks = 3, .cells_per_block = 5, .align = align};
      Binding binding;
      bind(grid, count, binding);
      ASSERT_EQ(binding.offsets.back(), 3 * count);
      for (uint32_t cells = 0; cells <= grid.cells(); ++cells) {
        for (uint32_t begin = 0; begin + cells <= grid.cells(); ++begin) {
          ASSERT_LE(binding.elements(begin, begin + cells), binding.elements(0, cells)) << count << " " << begin << " " << cells;
        }
      }
    }
  }
}

// --- element maps ----------------------------------------------------------------------------------------------------------

TEST(PlanBuilder, PreMulSumMapsOnceBeforeASendAndFusesIntoReads) {
  Shape shape = shape_of(Collective::allreduce, 3, 0);
  shape.map_in = true;
  Builder b(shape);
  b.split(3);
  const Chunk work = b.scratch(2, 3);
  b.send(1, b.in(0, 1));                      // 0 map into a mirror, 1 send
  b.send(2, b.in(0, 1));                      // 2 send from the same mirror
  b.recv_reduce(2, b.out(1, 2), b.in(1, 2));  // 3 fused
  b.recv_reduce(1, b.out(0, 1), b.in(0, 1));  // 4 reads the mirror: rounded like what was sent
  b.reduce(b.out(2, 3), work, b.in(2, 3));    // 5 operands swapped
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan),
              ElementsAre(StepKind::map, StepKind::send, StepKind::send, StepKind::recv_reduce, StepKind::recv_reduce, StepKind::reduce));
  EXPECT_EQ(plan.steps[0].flags, kMapIn);
  EXPECT_EQ(plan.steps[1].src_region, plan.steps[0].dst_region);
  EXPECT_EQ(plan.steps[2].src_region, plan.steps[0].dst_region);
  EXPECT_EQ(plan.steps[3].flags, kMapIn);
  EXPECT_EQ(plan.steps[4].flags, 0);
  EXPECT_EQ(plan.steps[4].src_region, plan.steps[0].dst_region);
  EXPECT_EQ(plan.steps[5].src_region, kIn);
  EXPECT_EQ(plan.steps[5].flags, kMapIn);
}

TEST(PlanBuilder, PreMulSumInPlaceMapsWhereTheCellsLie) {
  Shape shape = shape_of(Collective::allreduce, 3, 0);
  shape.map_in = shape.in_place = true;
  Builder b(shape);
  b.split(3);
  b.send(1, b.in(1, 2));                      // 0 map out[1], 1 send
  b.copy(b.out(0, 3), b.in(0, 3));            // 2, 3 map out[0], out[2]
  b.recv_reduce(1, b.out(0, 3), b.in(0, 3));  // 4 no flag
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::map, StepKind::send, StepKind::map, StepKind::map, StepKind::recv_reduce));
  EXPECT_EQ(plan.steps[0].dst(), (Chunk{kOut, 1, 2}));
  EXPECT_EQ(plan.steps[3].dst(), (Chunk{kOut, 2, 3}));
  EXPECT_EQ(plan.steps[4].flags, 0);
  EXPECT_EQ(plan.regions.size(), 2U);
}

TEST(PlanBuilder, PreMulSumInPlaceSparesTheRestOfAScattersInput) {
  Shape shape = shape_of(Collective::reduce_scatter, 2, 0);
  shape.map_in = shape.in_place = true;
  Builder b(shape);
  b.send(1, b.in(1, 2));                      // 0 map into a mirror, 1 send: block 1 is not ours to change
  b.recv_reduce(1, b.out(0, 1), b.in(0, 1));  // 2 fused
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::map, StepKind::send, StepKind::recv_reduce));
  EXPECT_EQ(plan.regions[plan.steps[0].dst_region].place, Place::scratch);
  EXPECT_EQ(plan.steps[2].flags, kMapIn);
}

TEST(PlanBuilder, BothOperandsOfAReduceCanBeInput) {
  Shape shape = shape_of(Collective::allreduce, 2, 0);
  shape.map_in = true;
  Builder b(shape);
  b.reduce(b.out(0, 1), b.in(0, 1), b.in(0, 1));
  EXPECT_THAT(kinds(finished(b)), ElementsAre(StepKind::map, StepKind::reduce));
}

TEST(PlanBuilder, AverageDividesInTheLastStoreIfNobodyHasReadIt) {
  Shape shape = shape_of(Collective::allreduce, 2, 0);
  shape.op = ReduceOp::avg;
  Builder b(shape);
  b.split(2);
  b.recv_reduce(1, b.out(0, 1), b.in(0, 1));  // 0
  b.complete(b.out(0, 1));                    // fused into 0
  b.recv_reduce(1, b.out(1, 2), b.in(1, 2));  // 1
  b.send(1, b.out(1, 2));                     // 2
  b.complete(b.out(1, 2));                    // 3: the send has read the sum
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::recv_reduce, StepKind::recv_reduce, StepKind::send, StepKind::map));
  EXPECT_EQ(plan.op, ReduceOp::avg);
  EXPECT_EQ(plan.steps[0].op, ReduceOp::sum);
  EXPECT_EQ(plan.steps[0].flags, kMapOut);
  EXPECT_EQ(plan.steps[1].flags, 0);
  EXPECT_EQ(plan.steps[3].flags, kMapOut);
  EXPECT_THAT(deps(plan, 3), ElementsAre(1, 2));
}

TEST(PlanBuilder, AverageDividesWhereEverybodysSumIsDecoded) {
  Shape shape = shape_of(Collective::allreduce, 2, 0);
  shape.op = ReduceOp::avg;
  Builder b(shape);
  b.use_codec(&kToyCodec);
  b.split(2, 4);
  const Chunk sums = b.scratch(0, 2, Layout::encoded, 2), scale = b.scratch(0, 2, Layout::scale);
  b.decode(b.out(0, 1), b.part(sums, 0, 1), b.part(scale, 0, 1), 2);  // 0
  b.complete(b.out(0, 1));                                            // fused into 0
  b.decode(b.out(1, 2), b.part(sums, 1, 2), b.part(scale, 1, 2), 1);  // 1: of one only
  b.complete(b.out(1, 2));                                            // 2
  const Plan plan = finished(b);
  EXPECT_THAT(kinds(plan), ElementsAre(StepKind::decode, StepKind::decode, StepKind::map));
  EXPECT_EQ(plan.steps[0].flags, kMapOut);
  EXPECT_EQ(plan.steps[1].flags, 0);
  EXPECT_EQ(plan.steps[2].flags, kMapOut);
}

TEST(PlanBuilder, AverageOfOneRankIsACopy) {
  Shape shape = shape_of(Collective::allreduce, 1, 0);
  shape.op = ReduceOp::avg;
  Builder b(shape);
  b.copy(b.out(0, 1), b.in(0, 1));
  b.complete(b.out(0, 1));
  EXPECT_THAT(kinds(finished(b)), ElementsAre(StepKind::copy));
}

// --- chunks and errors -----------------------------------------------------------------------------------------------------

TEST(PlanBuilder, PartialIsTheWorkOnceWritten) {
  Builder b(shape_of(Collective::allreduce, 2, 0));
  b.split(4);
  const Chunk work = b.scratch(0, 4);
  EXPECT_EQ(b.partial(work, 0, 2), b.in(0, 2));
  b.recv(1, b.part(work, 0, 2));
  EXPECT_EQ(b.partial(work, 0, 2), b.part(work, 0, 2));
  EXPECT_EQ(b.partial(work, 2, 4), b.in(2, 4));
  EXPECT_FALSE(b.partial(work, 1, 3).valid());
  EXPECT_THAT(error_of(b), HasSubstr("only 1 cells of scratch 2[1..3)"));
}

TEST(PlanBuilder, EmptyChunksMakeNoSteps) {
  Builder b(shape_of(Collective::allreduce, 2, 0));
  b.send(1, b.in(0, 0));
  b.recv_reduce(1, b.out(1, 1), b.in(1, 1));
  b.copy(b.out(0, 0), b.in(0, 0));
  EXPECT_THAT(kinds(finished(b)), IsEmpty());
}

TEST(PlanBuilder, PairsNeedTheSamePlaceInTheirBlocks) {
  Builder good(shape_of(Collective::allgather, 3, 0));
  good.split(2);
  good.copy(good.out(2, 4), good.in(0, 2));
  EXPECT_EQ(finished(good).steps.size(), 1U);
  Builder bad(shape_of(Collective::allgather, 3, 0));
  bad.split(2);
  bad.copy(bad.out(3, 4), bad.in(0, 1));
  EXPECT_THAT(error_of(bad), HasSubstr("differ in size or place"));
}

TEST(PlanBuilder, TheFirstErrorNamesTheLineOfTheAlgorithm) {
  Builder b(shape_of(Collective::broadcast, 4, 1, 0), "chain");
  const int line = __LINE__ + 1;
  b.send(4, b.out(0, 1));
  b.send(1, b.out(0, 1));
  const std::string text = error_of(b);
  EXPECT_THAT(text, HasSubstr("broadcast/chain of rank 1"));
  EXPECT_THAT(text, HasSubstr("plan_builder_test.cc:" + std::to_string(line) + ": peer 4"));
}

TEST(PlanBuilder, RefusesWhatCannotBe) {
  const auto error = [](Collective collective, auto&& calls) {
    Builder b(shape_of(collective, 4, 1, is_rooted(collective) ? 0 : -1));
    calls(b);
    return error_of(b);
  };
  EXPECT_THAT(error(Collective::broadcast, [](Builder& b) { b.send(0, b.in(0, 1)); }), HasSubstr("not in in"));
  EXPECT_THAT(error(Collective::allreduce, [](Builder& b) { b.recv(0, b.in(0, 1)); }), HasSubstr("must not be written"));
  EXPECT_THAT(error(Collective::allreduce, [](Builder& b) { (void)b.out(0, 1), b.split(2); }), HasSubstr("before the first chunk"));
  EXPECT_THAT(error(Collective::allreduce, [](Builder& b) { b.send(1, b.in(0, 1)); }), HasSubstr("peer 1 is not another member"));
  EXPECT_THAT(error(Collective::allreduce, [](Builder& b) { b.copy(b.scratch(0, 1, Layout::scale), b.in(0, 1)); }),
              HasSubstr("another layout"));
  const auto copy_of_sums = [](Builder& b) { b.copy(b.scratch(0, 1, Layout::encoded, 2), b.scratch(0, 1, Layout::encoded, 3)); };
  EXPECT_THAT(error(Collective::allreduce, copy_of_sums), HasSubstr("room for different numbers of encodings"));
  EXPECT_THAT(error(Collective::allreduce, [](Builder& b) { b.fail("no such tree"); }), HasSubstr("no such tree"));
  Builder no_root(shape_of(Collective::reduce, 4, 1, 4));
  EXPECT_THAT(error_of(no_root), HasSubstr("needs a root in 0..3"));
  Shape of_five = shape_of(Collective::allreduce, 4, 1);
  const int32_t sites[] = {0, 0, 1, 1, 1};
  of_five.sites = sites;
  Builder too_many_sites(of_five);
  EXPECT_THAT(error_of(too_many_sites), HasSubstr("5 numbers of sites for a group of 4"));
}

TEST(PlanBuilder, BuildChecksWhatTheAlgorithmNeeds) {
  const Algorithm ring{.name = "ring",
                       .collective = Collective::allreduce,
                       .needs = {.max_ranks = 8, .power_of_two = true},
                       .tunables = {},
                       .steps_formula = "",
                       .bytes_formula = "",
                       .emit = ring_allreduce};
  EXPECT_TRUE(build(ring, shape_of(Collective::allreduce, 4, 0)).ok());
  EXPECT_FALSE(build(ring, shape_of(Collective::allreduce, 3, 0)).ok());
  EXPECT_FALSE(build(ring, shape_of(Collective::allreduce, 16, 0)).ok());
  EXPECT_FALSE(build(ring, shape_of(Collective::reduce, 4, 0, 0)).ok());
}

TEST(PlanBuilder, BuildChecksTheCodec) {
  const auto emit = [](const Shape& shape, Builder& b) { (void)b.scratch(0, 1, shape.codec == nullptr ? Layout::data : Layout::encoded); };
  const auto refusal = [&](Coding coding, const codec::Codec* codec, int32_t ranks) {
    const Algorithm algorithm = {.name = "some",
                                 .collective = Collective::allreduce,
                                 .needs = {.coding = coding},
                                 .tunables = {},
                                 .steps_formula = "",
                                 .bytes_formula = "",
                                 .emit = emit};
    Shape shape = shape_of(Collective::allreduce, ranks, 0);
    shape.codec = codec;
    const auto plan = build(algorithm, shape);
    if (!plan.ok()) return plan.status().text();
    EXPECT_EQ(plan->codec, codec);
    return std::string();
  };
  codec::Codec narrow = kToyCodec;
  narrow.max_summands = 3;
  const codec::Codec* bf16 = codec::find("bf16");
  EXPECT_EQ(refusal(Coding::none, nullptr, 4), "");
  EXPECT_EQ(refusal(Coding::sums, &kToyCodec, 4), "");
  EXPECT_EQ(refusal(Coding::sums, &narrow, 3), "");
  EXPECT_EQ(refusal(Coding::decoding, bf16, 4), "");
  EXPECT_THAT(refusal(Coding::none, bf16, 4), HasSubstr("allreduce/some sends elements as they are, but codec bf16 is asked for"));
  EXPECT_THAT(refusal(Coding::sums, nullptr, 4), HasSubstr("needs a homomorphic codec, but no codec is given"));
  EXPECT_THAT(refusal(Coding::sums, bf16, 4), HasSubstr("needs a homomorphic codec, but codec bf16"));
  EXPECT_THAT(refusal(Coding::sums, &narrow, 4), HasSubstr("would add 4 encodings, of which 3 can be added"));
  EXPECT_THAT(refusal(Coding::decoding, nullptr, 4), HasSubstr("no codec is given"));
  EXPECT_THAT(refusal(Coding::decoding, &kToyCodec, 4), HasSubstr("whose encodings have their own scales, but codec toy"));
}

TEST(PlanBuilder, ALargeRingStaysSmall) {
  const Shape shape = shape_of(Collective::allreduce, 4096, 7);
  Builder b(shape, "ring");
  ring_allreduce(shape, b);
  const Plan plan = finished(b);
  EXPECT_EQ(plan.steps.size(), 4U * 4095U);
  EXPECT_LE(plan.bytes(), 1U << 20);
}

TEST(PlanBuilder, TheHashIgnoresSitesButNothingElse) {
  const auto plan_of = [](ReduceOp op) {
    Shape shape = shape_of(Collective::allreduce, 4, 0);
    shape.op = op;
    Builder b(shape, "ring");
    ring_allreduce(shape, b);
    return finished(b);
  };
  Plan a = plan_of(ReduceOp::sum);
  EXPECT_EQ(a.hash(), plan_of(ReduceOp::sum).hash());
  EXPECT_NE(a.hash(), plan_of(ReduceOp::max).hash());
  const uint64_t before = a.hash();
  a.steps[0].site = 9;
  EXPECT_EQ(a.hash(), before);
  a.steps[0].ordinal = 9;
  EXPECT_NE(a.hash(), before);
}

}  // namespace
}  // namespace isthmus::plan
