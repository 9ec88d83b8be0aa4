// SPDX-License-Identifier: Apache-2.0
// The checkers refuse what is wrong, and say what, where: contributions, associations, maps, races, matching, stalls, codecs.
// (That they accept what is right is the business of tests/plan/proof.cc.)
#include "plan/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/builder.h"
#include "plan/send_recv.h"
#include "toy_codec.h"
#include "worlds.h"

namespace isthmus::plan {
namespace {

using testing::HasSubstr;

constexpr uint64_t kCount = 1000;

/// The plans of all ranks, emitted by any callable that takes (shape, builder).
template <typename Emit>
std::vector<Plan> world_of(Shape shape, Emit&& emit) {
  std::vector<Plan> world;
  for (shape.group.position = 0; shape.group.position < shape.group.size; ++shape.group.position) {
    Builder b(shape, "test");
    emit(shape, b);
    auto plan = b.finish();
    EXPECT_TRUE(plan.ok()) << plan.status().text();
    if (plan.ok()) world.push_back(std::move(*plan));
  }
  return world;
}

Shape shape_of(Collective collective, int32_t ranks, int32_t root = -1) {
  return {.collective = collective, .group = {.ranks = {}, .size = ranks, .position = 0}, .root = root};
}

std::string fault(World world) { return check_symbolic(world, kCount).text(); }

/// Two ranks send each other all of `in`, and add.
void exchange(const Shape& shape, Builder& b) {
  const int32_t peer = 1 - shape.group.position;
  b.send(peer, b.in(0, 1));
  b.recv_reduce(peer, b.out(0, 1), b.in(0, 1));
  b.complete(b.out(0, 1));
}

// --- contributions ---------------------------------------------------------------------------------------------------------

TEST(PlanCheck, AcceptsAnExchange) {
  for (const bool in_place : {false, true}) {
    Shape shape = shape_of(Collective::allreduce, 2);
    shape.in_place = in_place;
    const auto world = world_of(shape, exchange);
    EXPECT_EQ(fault(world), "");
    EXPECT_EQ(check_symbolic(world, 0).text(), "");
    for (const Reads reads : {Reads::pushed, Reads::in_place}) EXPECT_EQ(check_deadlock(world, kCount, reads).text(), "");
  }
}

TEST(PlanCheck, EveryContributionCountsOnce) {
  const auto missing = world_of(shape_of(Collective::allreduce, 2), [](const Shape&, Builder& b) { b.copy(b.out(0, 1), b.in(0, 1)); });
  EXPECT_THAT(fault(missing), HasSubstr("rank 0 ends with cell 0 of ranks 0 in cell 0 of out: not every rank has contributed"));
  const auto twice = world_of(shape_of(Collective::allreduce, 2), [](const Shape& shape, Builder& b) {
    exchange(shape, b);
    b.reduce(b.out(0, 1), b.out(0, 1), b.in(0, 1));
  });
  EXPECT_THAT(fault(twice), HasSubstr("a contribution counts twice"));
}

TEST(PlanCheck, CellsDoNotMix) {
  const auto world = world_of(shape_of(Collective::allgather, 2), [](const Shape& shape, Builder& b) {
    const auto own = static_cast<uint32_t>(shape.group.position);
    b.send(1 - shape.group.position, b.in(own, own + 1));
    b.recv(1 - shape.group.position, b.out(own, own + 1));  // should be the other block
    b.copy(b.out(1 - own, 2 - own), b.in(own, own + 1));
  });
  EXPECT_THAT(fault(world), HasSubstr("elements of another cell"));
}

TEST(PlanCheck, AllToAllTurnsBlocksAround) {
  /// Rank r's block c goes to rank c, which has it as block r; `taken` is what goes to the other rank.
  const auto world = [](const std::function<uint32_t(uint32_t own)>& taken, bool right_place) {
    return world_of(shape_of(Collective::alltoall, 2), [&](const Shape& shape, Builder& b) {
      const auto own = static_cast<uint32_t>(shape.group.position), other = 1 - own, to = right_place ? other : own;
      b.send(1 - shape.group.position, b.in(taken(own), taken(own) + 1));
      b.recv(1 - shape.group.position, b.out(to, to + 1));
      b.copy(b.out(1 - to, 2 - to), b.in(own, own + 1));
    });
  };
  EXPECT_EQ(fault(world([](uint32_t own) { return 1 - own; }, true)), "");
  EXPECT_THAT(fault(world([](uint32_t own) { return own; }, true)), HasSubstr("cell 0 of its `in` is wanted"));
  EXPECT_THAT(fault(world([](uint32_t own) { return 1 - own; }, false)), HasSubstr("rank 0's elements are wanted"));
}

TEST(PlanCheck, NobodyReadsWhatNobodyWrote) {
  const auto world = world_of(shape_of(Collective::allreduce, 2), [](const Shape& shape, Builder& b) {
    b.send(1 - shape.group.position, b.scratch(0, 1));
    b.recv(1 - shape.group.position, b.out(0, 1));
  });
  EXPECT_THAT(fault(world), HasSubstr("sends a cell that nobody has written"));
}

TEST(PlanCheck, AllRanksAssociateAlike) {
  // Ranks 0 and 1 add (0+1)+2, rank 2 adds (2+0)+1.
  const auto world = world_of(shape_of(Collective::allreduce, 3), [](const Shape& shape, Builder& b) {
    const int32_t me = shape.group.position;
    for (int32_t peer = 0; peer < 3; ++peer) {
      if (peer != me) b.send(peer, b.in(0, 1));
    }
    b.recv_reduce(me == 0 ? 1 : 0, b.out(0, 1), b.in(0, 1));
    b.recv_reduce(me == 2 ? 1 : 2, b.out(0, 1), b.out(0, 1));
  });
  EXPECT_THAT(fault(world), HasSubstr("rank 2 ends with cell 0 of ranks 0-2 in cell 0 of out: another rank has combined"));
}

TEST(PlanCheck, TheOperatorIsThePlans) {
  auto world = world_of(shape_of(Collective::allreduce, 2), exchange);
  world[1].steps[1].op = ReduceOp::max;
  EXPECT_THAT(fault(world), HasSubstr("reduces with max where sum is wanted"));
}

// --- maps ------------------------------------------------------------------------------------------------------------------

TEST(PlanCheck, AverageDividesOnceAndAlike) {
  Shape shape = shape_of(Collective::allreduce, 2);
  shape.op = ReduceOp::avg;
  EXPECT_EQ(fault(world_of(shape, exchange)), "");
  auto never = world_of(shape, exchange);
  for (Plan& plan : never) plan.steps[1].flags = 0;
  EXPECT_THAT(fault(never), HasSubstr("the sum must be divided exactly once"));
  const auto twice = world_of(shape, [](const Shape& s, Builder& b) {
    exchange(s, b);
    b.send(1 - s.group.position, b.out(0, 1));
    b.complete(b.out(0, 1));
    b.recv(1 - s.group.position, b.scratch(0, 1));
  });
  EXPECT_THAT(fault(twice), HasSubstr("divides cell 0 of ranks 0-1 twice"));
  const auto unlike = world_of(shape, [](const Shape& s, Builder& b) {
    const int32_t peer = 1 - s.group.position;
    b.send(peer, b.in(0, 1));
    b.recv_reduce(peer, b.out(0, 1), b.in(0, 1));
    if (s.group.position == 1) b.copy(b.scratch(0, 1), b.out(0, 1));  // a reader: the division becomes a step of its own
    b.complete(b.out(0, 1));
  });
  EXPECT_THAT(fault(unlike), HasSubstr("another rank has combined"));
  const auto early = world_of(shape, [](const Shape& s, Builder& b) {
    b.copy(b.out(0, 1), b.in(0, 1));
    b.complete(b.out(0, 1));
    b.send(1 - s.group.position, b.in(0, 1));
    b.recv(1 - s.group.position, b.scratch(0, 1));
  });
  EXPECT_THAT(fault(early), HasSubstr("before all ranks have contributed"));
}

TEST(PlanCheck, ScaledInputIsScaledOnceByItsOwner) {
  Shape shape = shape_of(Collective::allreduce, 2);
  shape.map_in = true;
  EXPECT_EQ(fault(world_of(shape, exchange)), "");
  auto raw = world_of(shape, exchange);
  for (Plan& plan : raw) plan.steps[1].src_region = kIn;  // send what lies in `in`
  EXPECT_THAT(fault(raw), HasSubstr("sends cell 0 of ranks"));
  auto unscaled = world_of(shape, exchange);
  for (Plan& plan : unscaled) plan.steps[2].src_region = kIn;
  EXPECT_THAT(fault(unscaled), HasSubstr("before its scalar is applied"));
}

TEST(PlanCheck, ScaledInputRoundsAlikeEverywhere) {
  Shape shape = shape_of(Collective::allreduce, 2);
  shape.map_in = true;
  // Fused where it is read here, but rounded before it is sent to the peer.
  const auto world = world_of(shape, [](const Shape& s, Builder& b) {
    const int32_t peer = 1 - s.group.position;
    b.recv_reduce(peer, b.out(0, 1), b.in(0, 1));
    b.send(peer, b.in(0, 1));
  });
  EXPECT_THAT(fault(world), HasSubstr("another rank has combined"));
}

// --- form, races, matching -------------------------------------------------------------------------------------------------

TEST(PlanCheck, ConflictingStepsNeedAnOrder) {
  Shape shape = shape_of(Collective::allreduce, 2);
  shape.in_place = true;
  auto world = world_of(shape, exchange);
  world[1].steps[1].deps_count = 0;
  world[1].successors.clear();
  world[1].successors_begin.assign(3, 0);
  EXPECT_THAT(fault(world), HasSubstr("rank 1 touches cell 0 in two steps that no dependency orders"));
}

TEST(PlanCheck, FormFaultsAreNamed) {
  const auto broken = [](auto&& damage) {
    auto world = world_of(shape_of(Collective::allreduce, 2), exchange);
    damage(world[0]);
    return fault(world);
  };
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[1].dst_region = kIn; }), HasSubstr("writes the caller's"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[1].dst_begin = 1; }), HasSubstr("outside its buffer"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[1].src_region = kNoRegion; }), HasSubstr("lacks an operand"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[1].slot = 1; }), HasSubstr("no inbox slot"));
  EXPECT_THAT(broken([](Plan& plan) { plan.slots[0].end = 0; }), HasSubstr("does not fit"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].peer = 0; }), HasSubstr("its peer is not another rank"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].flags = kMapOut; }), HasSubstr("cannot map"));
  EXPECT_THAT(broken([](Plan& plan) { plan.successors_begin.pop_back(); }), HasSubstr("successor table"));
  EXPECT_THAT(broken([](Plan& plan) { plan.op = ReduceOp::max; }), HasSubstr("plans of different calls"));
}

TEST(PlanCheck, MessagesMatch) {
  const auto unmatched = world_of(shape_of(Collective::allreduce, 2), [](const Shape& shape, Builder& b) {
    b.copy(b.out(0, 1), b.in(0, 1));
    if (shape.group.position == 0) b.send(1, b.in(0, 1));
  });
  EXPECT_THAT(fault(unmatched), HasSubstr("rank 0 sends 1 messages to rank 1, which receives 0 from it"));
  const auto unequal = world_of(shape_of(Collective::allreduce, 2), [](const Shape& shape, Builder& b) {
    b.split(2);
    const int32_t peer = 1 - shape.group.position;
    b.send(peer, shape.group.position == 0 ? b.in(0, 1) : b.in(0, 2));
    b.recv_reduce(peer, b.out(0, 2), b.in(0, 2));
  });
  EXPECT_THAT(fault(unequal), HasSubstr("receives a message of another size"));
  auto holes = world_of(shape_of(Collective::allreduce, 2), exchange);
  holes[0].steps[0].ordinal = 1;
  EXPECT_THAT(fault(holes), HasSubstr("message number out of order"));
}

TEST(PlanCheck, AllRanksAreNeeded) {
  const auto world = world_of(shape_of(Collective::allreduce, 2), exchange);
  EXPECT_THAT(fault(World(world).first(1)), HasSubstr("all ranks are needed"));
  EXPECT_THAT(fault(World()), HasSubstr("no plans"));
}

TEST(PlanCheck, GroupsMayBeAnySetOfRanks) {
  const std::vector<int32_t> ranks = {6, 2, 5};
  Shape shape = shape_of(Collective::allgather, 3);
  shape.group.ranks = ranks;
  std::vector<Plan> world;
  for (shape.group.position = 0; shape.group.position < 3; ++shape.group.position) {
    Builder b(shape, "test", 7);
    const auto own = static_cast<uint32_t>(shape.group.position);
    for (int32_t peer = 0; peer < 3; ++peer) {
      const auto block = static_cast<uint32_t>(peer);
      if (peer == shape.group.position) continue;
      b.send(peer, b.in(own, own + 1));
      b.recv(peer, b.out(block, block + 1));
    }
    b.copy(b.out(own, own + 1), b.in(own, own + 1));
    world.push_back(b.finish().value());
  }
  EXPECT_EQ(fault(world), "");
  EXPECT_EQ(check_deadlock(world, kCount, Reads::in_place).text(), "");
}

// --- stalls ----------------------------------------------------------------------------------------------------------------

TEST(PlanCheck, ARecvHasNoBuffering) {
  // Both ranks receive into what they have yet to send: with unbounded buffering it would work, here it must not.
  Shape shape = shape_of(Collective::allreduce, 2);
  const auto world = world_of(shape, [](const Shape& s, Builder& b) {
    const Chunk work = b.scratch(0, 1);
    b.copy(work, b.in(0, 1));
    b.send(1 - s.group.position, work);
    b.recv(1 - s.group.position, work);
    b.reduce(b.out(0, 1), work, b.in(0, 1));
  });
  const std::string text = check_deadlock(world, kCount, Reads::pushed).text();
  EXPECT_THAT(text, HasSubstr("the plans wait for each other"));
  EXPECT_THAT(text, HasSubstr("needs room for"));
  EXPECT_THAT(text, HasSubstr("follows"));
  EXPECT_THAT(text, HasSubstr("plan_check_test.cc:"));
  EXPECT_EQ(check_deadlock(world, 0, Reads::pushed).text(), "");  // nothing travels
}

TEST(PlanCheck, ReadsInPlaceMustNotWaitForTheirOwnApply) {
  Shape shape = shape_of(Collective::allreduce, 2);
  shape.in_place = true;
  auto world = world_of(shape, exchange);
  for (Plan& plan : world) plan.steps[0].flags |= kReadInPlace;  // what the builder does not do
  EXPECT_EQ(check_deadlock(world, kCount, Reads::pushed).text(), "");
  EXPECT_THAT(check_deadlock(world, kCount, Reads::in_place).text(), HasSubstr("the plans wait for each other"));
}

TEST(PlanCheck, MessagesLandInOrder) {
  auto world = world_of(shape_of(Collective::broadcast, 2, 0), [](const Shape& s, Builder& b) {
    if (s.group.position == 0) {
      b.copy(b.out(0, 1), b.in(0, 1));
      b.send(1, b.in(0, 1));
      b.send(1, b.in(0, 1));
    } else {
      const Chunk work = b.scratch(0, 1);
      b.recv(0, work);
      b.copy(b.out(0, 1), work);
      b.recv(0, work);
    }
  });
  EXPECT_EQ(check_deadlock(world, kCount, Reads::pushed).text(), "");
  std::swap(world[1].steps[0].ordinal, world[1].steps[2].ordinal);  // the first message lands after the second has been used
  EXPECT_THAT(check_deadlock(world, kCount, Reads::pushed).text(), HasSubstr("comes after the message of"));
}

TEST(PlanCheck, SlotsBoundTheInbox) {
  auto world = world_of(shape_of(Collective::reduce, 2, 0), [](const Shape& s, Builder& b) {
    b.split(10);
    for (uint32_t cell = 0; cell < 10; ++cell) {
      if (s.group.position == 1) {
        b.send(0, b.in(cell, cell + 1));
      } else {
        b.recv_reduce(1, b.out(cell, cell + 1), b.in(cell, cell + 1));
      }
    }
  });
  EXPECT_EQ(check_deadlock(world, kCount, Reads::pushed).text(), "");
  // The first message goes to the step that takes over the slot of the second.
  std::swap(world[0].steps[0].ordinal, world[0].steps[9].ordinal);
  const std::string text = check_deadlock(world, kCount, Reads::pushed).text();
  EXPECT_THAT(text, HasSubstr("the plans wait for each other"));
  EXPECT_THAT(text, HasSubstr("receives into the slot of"));
}

// --- send/recv -------------------------------------------------------------------------------------------------------------

TEST(PlanCheck, GroupedTransfersArrive) {
  std::vector<Plan> world(2);
  Binding binding;
  const std::vector<Transfer> of_0 = {{1, true, 4}, {1, true, 8}, {0, true, 3}, {0, false, 3}};
  const std::vector<Transfer> of_1 = {{0, false, 4}, {0, false, 8}};
  ASSERT_TRUE(build_send_recv(0, 2, of_0, world[0], binding).ok());
  ASSERT_TRUE(build_send_recv(1, 2, of_1, world[1], binding).ok());
  EXPECT_EQ(fault(world), "");
  EXPECT_EQ(check_deadlock(world, 0, Reads::in_place).text(), "");  // zero bytes do travel
}

// --- codecs ----------------------------------------------------------------------------------------------------------------

TEST(PlanCheck, CodecsNeedTheirScaleAndTheirCount) {
  Shape shape = shape_of(Collective::allreduce, 3);
  shape.codec = &kToyCodec;
  const auto good = build_world(kToyAllreduce, shape);
  ASSERT_TRUE(good.ok()) << good.status().text();
  EXPECT_EQ(fault(*good), "");
  const auto damaged = [&](StepKind kind, auto&& damage) {
    auto world = *good;
    for (Plan& plan : world) {
      for (Step& step : plan.steps) {
        if (step.kind == kind) damage(step);
      }
    }
    return fault(world);
  };
  EXPECT_THAT(damaged(StepKind::decode, [](Step& step) { ++step.summands; }), HasSubstr("decodes 3 encodings as 4"));
  EXPECT_THAT(damaged(StepKind::decode, [](Step& step) { step.flags |= kMapOut; }), HasSubstr("must be divided exactly once"));
  EXPECT_THAT(damaged(StepKind::decode, [](Step& step) { step.flags |= kMapOut, --step.summands; }),
              HasSubstr("cannot map what it stores"));
  EXPECT_THAT(damaged(StepKind::recv_reduce, [](Step& step) { step.op = ReduceOp::min; }), HasSubstr("where max is wanted"));
  auto narrow = *good;
  for (Plan& plan : narrow) {
    for (Region& region : plan.regions) region.summands = region.layout == Layout::encoded ? 2 : region.summands;
  }
  EXPECT_THAT(fault(narrow), HasSubstr("adds up 3 encodings where there is room for 2"));
}

TEST(PlanCheck, EncodingsOfDifferentWidthsAreNoCopies) {
  auto world = world_of(shape_of(Collective::allreduce, 1), [](const Shape&, Builder& b) {
    b.use_codec(&kToyCodec);
    b.split(1, 4);
    b.copy(b.scratch(0, 1, Layout::encoded, 2), b.scratch(0, 1, Layout::encoded, 2));
  });
  world[0].regions.back().summands = 3;
  EXPECT_THAT(fault(world), HasSubstr("an operand has the wrong layout"));
}

TEST(PlanCheck, EncodingsOfDifferentScalesDoNotAdd) {
  const auto world = world_of(shape_of(Collective::allreduce, 2), [](const Shape& s, Builder& b) {
    const int32_t peer = 1 - s.group.position;
    b.use_codec(&kToyCodec);
    b.split(1, 4);
    const Chunk scale = b.scratch(0, 1, Layout::scale), sum = b.scratch(0, 1, Layout::encoded, 2);
    b.measure(scale, b.in(0, 1));
    b.encode(sum, b.in(0, 1), scale, scale);  // before the exchange of scales
    b.send(peer, scale);
    b.recv_reduce_scale(peer, scale, scale);
    b.send(peer, sum);
    b.recv_reduce(peer, sum, sum);
    b.decode(b.out(0, 1), sum, scale, 2);
  });
  EXPECT_THAT(fault(world), HasSubstr("of different scales"));
}

TEST(PlanCheck, JoinedScalesAreNobodysOwn) {
  const auto world = [](bool joined_in_place) {
    return world_of(shape_of(Collective::allreduce, 2), [joined_in_place](const Shape& s, Builder& b) {
      const int32_t peer = 1 - s.group.position;
      b.use_codec(&kToyCodec);
      b.split(1, 4);
      const Chunk own = b.scratch(0, 1, Layout::scale), sum = b.scratch(0, 1, Layout::encoded, 2);
      const Chunk scale = joined_in_place ? own : b.scratch(0, 1, Layout::scale);
      b.measure(own, b.in(0, 1));
      b.send(peer, own);
      b.recv_reduce_scale(peer, scale, own);
      b.encode(sum, b.in(0, 1), scale, own);
      b.send(peer, sum);
      b.recv_reduce(peer, sum, sum);
      b.decode(b.out(0, 1), sum, scale, 2);
    });
  };
  EXPECT_EQ(fault(world(false)), "");
  EXPECT_THAT(fault(world(true)), HasSubstr("with an own scale that is not its own"));
}

TEST(PlanCheck, EncodingReadsTheScalesOfItsElements) {
  const auto encoded = [](uint32_t own_begin) {
    Builder b(shape_of(Collective::allreduce, 2, 0));
    b.use_codec(&kToyCodec);
    b.split(2, 4);
    const Chunk own = b.scratch(0, 2, Layout::scale), scale = b.scratch(0, 2, Layout::scale), sum = b.scratch(0, 2, Layout::encoded, 2);
    b.measure(own, b.in(0, 2));                                                                           // 0
    b.encode(b.part(sum, 1, 2), b.in(1, 2), b.part(scale, 1, 2), b.part(own, own_begin, own_begin + 1));  // 1
    b.measure(b.part(own, 1, 2), b.in(1, 2));                                                             // 2: overwrites
    return b.finish();
  };
  const auto plan = encoded(1);
  ASSERT_TRUE(plan.ok()) << plan.status().text();
  EXPECT_EQ(plan->steps[1].own(), (Chunk{plan->steps[0].dst_region, 1, 2}));
  const auto before = plan->deps_of(plan->steps[2]);  // who overwrites them waits
  EXPECT_EQ(std::vector<uint32_t>(before.begin(), before.end()), std::vector<uint32_t>{1});
  EXPECT_THAT(encoded(0).status().text(), HasSubstr("are not the scales of in[1..2)"));
}

TEST(PlanCheck, OtherCodecsCannotAdd) {
  static constexpr auto bytes = [](const codec::Codec&, uint64_t elements, uint32_t) { return elements; };
  static constexpr codec::Codec kPlain = {.name = "plain",
                                          .id = 998,
                                          .homomorphic = false,
                                          .needs_scale = false,
                                          .block_elements = 1,
                                          .max_summands = 1,
                                          .encoded_bytes = bytes,
                                          .scale_bytes = [](const codec::Codec&, uint64_t) { return uint64_t{0}; }};
  const auto emit = [](bool adds_encodings) {
    return [adds_encodings](const Shape& s, Builder& b) {
      const int32_t peer = 1 - s.group.position;
      b.use_codec(&kPlain);
      const Chunk mine = b.scratch(0, 1, Layout::encoded), theirs = b.scratch(0, 1, Layout::encoded);
      const Chunk a = b.scratch(0, 1), c = b.scratch(0, 1);
      b.encode(mine, b.in(0, 1), Chunk{}, Chunk{});
      b.send(peer, mine);
      b.recv(peer, theirs);
      if (adds_encodings) b.accumulate(theirs, theirs, mine);
      b.decode(a, theirs, Chunk{}, 1);
      b.decode(c, mine, Chunk{}, 1);  // the owner too keeps what its own encoding decodes to
      b.reduce(b.out(0, 1), a, c);
    };
  };
  EXPECT_EQ(fault(world_of(shape_of(Collective::allreduce, 2), emit(false))), "");
  EXPECT_THAT(fault(world_of(shape_of(Collective::allreduce, 2), emit(true))), HasSubstr("which codec plain does not allow"));
}

}  // namespace
}  // namespace isthmus::plan
