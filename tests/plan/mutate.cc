// SPDX-License-Identifier: Apache-2.0
// The kinds of defects. Called by tests/plan/mutants.cc.
#include "mutate.h"

#include <algorithm>
#include <utility>

#include "equivalence.h"
#include "plan/dependencies.h"
#include "plan/memory_map.h"

namespace isthmus::plan {

namespace {

struct At {
  size_t plan;
  size_t step;
};

/// A random step for which wanted(plan, step index) holds.
template <typename Wanted>
std::optional<At> pick(const std::vector<Plan>& world, CounterRng& rng, Wanted&& wanted) {
  std::vector<At> found;
  for (size_t plan = 0; plan < world.size(); ++plan) {
    for (size_t step = 0; step < world[plan].steps.size(); ++step) {
      if (wanted(world[plan], step)) found.push_back({plan, step});
    }
  }
  if (found.empty()) return std::nullopt;
  return found[rng.below(found.size())];
}

// --- what follows from the steps -------------------------------------------------------------------------------------------

void set_dependencies(Plan& plan, const std::vector<std::vector<uint32_t>>& before) {
  plan.deps.clear();
  plan.successors.clear();
  plan.successors_begin.assign(1, 0);
  std::vector<std::vector<uint32_t>> after(before.size());
  for (uint32_t i = 0; i < before.size(); ++i) {
    plan.steps[i].deps_begin = static_cast<uint32_t>(plan.deps.size());
    plan.steps[i].deps_count = static_cast<uint16_t>(before[i].size());
    plan.deps.insert(plan.deps.end(), before[i].begin(), before[i].end());
    for (const uint32_t step : before[i]) after[step].push_back(i);
  }
  for (const auto& steps : after) {
    plan.successors.insert(plan.successors.end(), steps.begin(), steps.end());
    plan.successors_begin.push_back(static_cast<uint32_t>(plan.successors.size()));
  }
}

std::vector<std::vector<uint32_t>> dependencies_of(const Plan& plan) {
  std::vector<std::vector<uint32_t>> before;
  for (const Step& step : plan.steps) before.emplace_back(plan.deps_of(step).begin(), plan.deps_of(step).end());
  return before;
}

void derive_dependencies(Plan& plan) {
  const MemoryMap memory(plan);
  DependencyTracker tracker;
  tracker.resize(memory.cells());
  std::vector<std::vector<uint32_t>> before;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    tracker.begin(i, before.emplace_back());
    if (step.src().valid()) tracker.read(memory.first(step.src()), step.cells);
    if (step.src2().valid()) tracker.read(memory.first(step.src2()), step.cells);
    if (step.own().valid()) tracker.read(memory.first(step.own()), step.cells);
    if (step.dst().valid()) tracker.write(memory.first(step.dst()), step.cells);
  }
  set_dependencies(plan, before);
}

void number_messages(Plan& plan) {
  plan.peers.clear();
  for (Step& step : plan.steps) {
    if (!step.is_message()) continue;
    auto at = std::find_if(plan.peers.begin(), plan.peers.end(), [&](const PeerTraffic& traffic) { return traffic.peer == step.peer; });
    if (at == plan.peers.end()) at = plan.peers.insert(at, {.peer = step.peer});
    step.ordinal = step.kind == StepKind::send ? at->sends++ : at->recvs++;
  }
}

void derive(Plan& plan) {
  number_messages(plan);
  std::vector<uint32_t> holder(plan.slots.size(), kNoStep);
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].slot != kNoSlot) plan.steps[i].slot_after = std::exchange(holder[plan.steps[i].slot], i);
  }
  derive_dependencies(plan);
}

void move_step(Plan& plan, size_t from, size_t to) {
  const Step moved = plan.steps[from];
  plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(from));
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(to), moved);
  derive(plan);
}

void duplicate_step(Plan& plan, size_t step) {
  const Step copy = plan.steps[step];
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(step), copy);
  derive(plan);
}

// --- the defects -----------------------------------------------------------------------------------------------------------

std::optional<Mutant> dropped(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan&, size_t) { return true; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(at->step));
  derive(plan);
  return mutant;
}

std::optional<Mutant> duplicated(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan&, size_t) { return true; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  duplicate_step(mutant.world[at->plan], at->step);
  if (may_run_twice(world[at->plan], world[at->plan].steps[at->step])) mutant.equivalent = "a pure local step runs twice";
  return mutant;
}

/// Two steps of one kind exchange what they work on (messages keep their peers). Chunks of `in` and `out` that are the same memory
/// count as equal, since nothing would change.
std::optional<Mutant> swapped(const std::vector<Plan>& world, CounterRng& rng) {
  const auto partners = [&](const Plan& plan, size_t step) {
    const MemoryMap memory(plan);
    const auto same = [&](const Chunk& a, const Chunk& b) { return !a.valid() || memory.first(a) == memory.first(b); };
    std::vector<size_t> found;
    for (size_t other = 0; other < plan.steps.size(); ++other) {
      const Step &a = plan.steps[step], &b = plan.steps[other];
      if (a.kind != b.kind || (same(a.dst(), b.dst()) && same(a.src(), b.src()) && a.cells == b.cells)) continue;
      if (a.is_message() ? a.peer != b.peer : a.cells == b.cells && !same(a.dst(), b.dst())) found.push_back(other);
    }
    return found;
  };
  const auto at = pick(world, rng, [&](const Plan& plan, size_t step) { return !partners(plan, step).empty(); });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  const auto others = partners(plan, at->step);
  Step &a = plan.steps[at->step], &b = plan.steps[others[rng.below(others.size())]];
  std::swap(a.dst_region, b.dst_region);
  std::swap(a.dst_begin, b.dst_begin);
  if (a.is_message()) {
    std::swap(a.src_region, b.src_region);
    std::swap(a.src_begin, b.src_begin);
    std::swap(a.cells, b.cells);
  }
  derive(plan);
  const bool bring = (a.kind == StepKind::recv || a.kind == StepKind::decode) && a.dst_begin == b.dst_begin && a.cells == b.cells;
  if (bring && may_trade_operands(mutant.world)) mutant.equivalent = "two contributions to one sum change places";
  return mutant;
}

/// One cell less, or one more where there is but one.
std::optional<Mutant> mis_sized(const std::vector<Plan>& world, CounterRng& rng) {
  const auto can_grow = [](const Plan& plan, const Chunk& chunk) { return !chunk.valid() || chunk.end < plan.regions[chunk.region].end; };
  const auto at = pick(world, rng, [&](const Plan& plan, size_t step) {
    const Step& what = plan.steps[step];
    return what.cells > 1 ||
           (can_grow(plan, what.dst()) && can_grow(plan, what.src()) && can_grow(plan, what.src2()) && can_grow(plan, what.own()));
  });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Step& step = mutant.world[at->plan].steps[at->step];
  if (step.cells == 1 && may_also_compute(world[at->plan], at->step, 1)) mutant.equivalent = "a pure local step computes a cell twice";
  step.cells = step.cells > 1 ? step.cells - 1 : 2;
  derive(mutant.world[at->plan]);
  return mutant;
}

/// A step moves before one that it must follow.
std::optional<Mutant> mis_ordered(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].deps_count > 0; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  const auto before = plan.deps_of(plan.steps[at->step]);
  const uint32_t other = before[rng.below(before.size())];
  if (may_change_places(world, at->plan, other, at->step)) mutant.equivalent = "two applies to the same cells change places";
  move_step(plan, at->step, other);
  return mutant;
}

std::optional<Mutant> wrong_op(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) {
    return plan.steps[step].kind == StepKind::recv_reduce || plan.steps[step].kind == StepKind::reduce;
  });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  ReduceOp& op = mutant.world[at->plan].steps[at->step].op;
  op = static_cast<ReduceOp>((static_cast<uint64_t>(op) + 1 + rng.below(3)) % 4);
  return mutant;
}

std::optional<Mutant> wrong_peer(const std::vector<Plan>& world, CounterRng& rng) {
  if (world.size() < 3) return std::nullopt;
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].is_message(); });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  Step& step = plan.steps[at->step];
  const int32_t right = step.peer;
  while (step.peer == right || step.peer == plan.rank) step.peer = static_cast<int32_t>(rng.below(world.size()));
  derive(plan);
  return mutant;
}

std::optional<Mutant> missing_dependency(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].deps_count > 0; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  auto dependencies = dependencies_of(plan);
  auto& before = dependencies[at->step];
  const size_t index = rng.below(before.size());
  if (is_implied(plan, static_cast<uint32_t>(at->step), before[index])) mutant.equivalent = "the other dependencies imply it";
  before.erase(before.begin() + static_cast<std::ptrdiff_t>(index));
  set_dependencies(plan, dependencies);
  return mutant;
}

/// A slot that is too small, or taken while another step holds it.
std::optional<Mutant> inbox_overflow(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].kind == StepKind::recv_reduce; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  Step& step = plan.steps[at->step];
  const uint64_t variant = rng.below(3);
  if (variant == 0 && step.slot_after != kNoStep) {
    step.slot_after = kNoStep;
  } else if (variant == 1 && step.slot > 0) {
    --step.slot;
  } else {
    plan.slots[step.slot].end = step.cells - 1;
  }
  return mutant;
}

/// A message is sent, received and added twice.
std::optional<Mutant> double_contribution(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].kind == StepKind::recv_reduce; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  const Step& recv = world[at->plan].steps[at->step];
  Plan& sender = mutant.world[static_cast<size_t>(recv.peer)];
  size_t send = 0;
  while (sender.steps[send].kind != StepKind::send || sender.steps[send].peer != world[at->plan].rank ||
         sender.steps[send].ordinal != recv.ordinal) {
    ++send;
  }
  duplicate_step(sender, send);
  duplicate_step(mutant.world[at->plan], at->step);
  Step& second = mutant.world[at->plan].steps[at->step + 1];
  second.src_region = second.dst_region;  // on top of the first, not instead of it
  second.src_begin = second.dst_begin;
  second.flags &= static_cast<uint8_t>(~kMapIn);
  derive(mutant.world[at->plan]);
  if (is_idempotent(recv.op)) mutant.equivalent = "an idempotent apply runs twice";
  return mutant;
}

std::optional<Mutant> encode_before_its_scale(const std::vector<Plan>& world, CounterRng& rng) {
  const auto last_join_before = [](const Plan& plan, size_t step) {  // of the scales that it encodes by
    const MemoryMap memory(plan);
    size_t join = step;
    while (join-- > 0) {
      const Step& what = plan.steps[join];
      if (what.kind == StepKind::recv_reduce && overlap(memory, what.dst(), plan.steps[step].src2())) return join;
    }
    return step;
  };
  const auto at = pick(world, rng, [&](const Plan& plan, size_t step) {
    return plan.steps[step].kind == StepKind::encode && last_join_before(plan, step) < step;
  });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  move_step(plan, at->step, last_join_before(plan, at->step));
  return mutant;
}

/// The joined scales in the place of the rank's own.
std::optional<Mutant> wrong_own_scale(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].own().valid(); });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  Plan& plan = mutant.world[at->plan];
  plan.steps[at->step].own_region = plan.steps[at->step].src2_region;
  derive(plan);
  return mutant;
}

std::optional<Mutant> wrong_summands(const std::vector<Plan>& world, CounterRng& rng) {
  const auto at = pick(world, rng, [](const Plan& plan, size_t step) { return plan.steps[step].kind == StepKind::decode; });
  if (!at) return std::nullopt;
  Mutant mutant{world};
  uint16_t& summands = mutant.world[at->plan].steps[at->step].summands;
  summands = static_cast<uint16_t>(rng.chance(0.5) ? summands + 1 : summands - 1);
  return mutant;
}

constexpr Defect kDefects[] = {
    {"dropped step", dropped},
    {"duplicated step", duplicated},
    {"swapped operands", swapped},
    {"mis-sized step", mis_sized},
    {"mis-ordered steps", mis_ordered},
    {"wrong op", wrong_op},
    {"wrong peer", wrong_peer},
    {"missing dependency", missing_dependency},
    {"inbox overflow", inbox_overflow},
    {"double contribution", double_contribution},
    {"encode before its scale", encode_before_its_scale},
    {"wrong own scale", wrong_own_scale},
    {"decode with a wrong count", wrong_summands},
};

}  // namespace

std::span<const Defect> defects() { return kDefects; }

}  // namespace isthmus::plan
