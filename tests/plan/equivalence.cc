// SPDX-License-Identifier: Apache-2.0
// The rules of equivalence. See equivalence.h.
#include "equivalence.h"

#include <map>
#include <tuple>
#include <utility>

#include "plan/memory_map.h"
#include "plan/walk.h"

namespace isthmus::plan {

namespace {

/// Who has contributed to each cell of everybody's memory, followed through a run: enough to see where sums become complete.
class Contributions {
 public:
  explicit Contributions(const std::vector<Plan>& world) : world_(world), completed_(world[0].grid.cells(), 0), inbox_(world.size()) {
    for (size_t rank = 0; rank < world.size(); ++rank) {
      maps_.emplace_back(world[rank]);
      memory_.emplace_back(maps_[rank].cells(), 0);
      const Region& in = world[rank].regions[kIn];
      for (uint32_t cell = in.begin; cell < in.end; ++cell) at(rank, {kIn, cell, cell + 1}, 0) = uint64_t{1} << rank;
    }
    follow();
  }

  /// How many steps of the world turn incomplete sums of that cell into a complete one.
  [[nodiscard]] uint32_t completed(uint32_t cell) const { return completed_[cell]; }

  /// How many steps of the world make of smaller sums the sum that this step makes of its cell `offset`.
  [[nodiscard]] uint32_t makers(size_t rank, size_t step, uint32_t offset) const {
    const uint32_t cell = world_[rank].steps[step].dst_begin + offset;
    const auto made = made_.find({rank, step, offset});
    return made == made_.end() ? 0 : makers_.at({cell, made->second});
  }

  /// Whether nobody has counted a contribution twice, and every cell of every `out` ends with all of them, added up by one step.
  [[nodiscard]] bool are_right() {
    for (size_t rank = 0; rank < world_.size(); ++rank) {
      const Region& out = world_[rank].regions[kOut];
      for (uint32_t cell = out.begin; cell < out.end; ++cell) {
        if (at(rank, {kOut, cell, cell + 1}, 0) != everybody() || completed_[cell] != 1) return false;
      }
    }
    return !twice_;
  }

 private:
  uint64_t& at(size_t rank, const Chunk& chunk, uint32_t offset) { return memory_[rank][maps_[rank].first(chunk) + offset]; }

  void follow() {
    auto walk = Walk::start(world_, uint64_t{1} << 20, Reads::pushed);
    if (!walk.ok()) return;
    while (!walk->enabled().empty()) {
      const Walk::Event event = walk->enabled().back();
      walk->enabled().pop_back();
      if (event.is_move) {
        move(*walk, event.at);
        walk->left(event.at);
        walk->landed(event.at);
      } else {
        compute(event.at);
        walk->computed(event.at);
      }
    }
  }

  void move(const Walk& walk, Walk::At send) {
    const Walk::At receiver = walk.partner(send);
    const Step& source = walk.step(send);
    const Step& target = walk.step(receiver);
    for (uint32_t i = 0; i < source.cells; ++i) {
      const uint64_t set = at(send.plan, source.src(), i);
      if (target.kind == StepKind::recv) at(receiver.plan, target.dst(), i) = set;
      if (target.kind == StepKind::recv_reduce) inbox_[receiver.plan][{receiver.step, i}] = set;
    }
  }

  void compute(Walk::At where) {
    const uint64_t all = everybody();
    const Step& step = world_[where.plan].steps[where.step];
    for (uint32_t i = 0; i < step.cells; ++i) {
      const uint64_t a = at(where.plan, step.src(), i);
      const bool adds = step.kind == StepKind::reduce || step.kind == StepKind::accumulate;
      const uint64_t b = step.kind == StepKind::recv_reduce ? inbox_[where.plan][{where.step, i}]
                         : adds                             ? at(where.plan, step.src2(), i)
                                                            : a;
      twice_ |= (adds || step.kind == StepKind::recv_reduce) && (a & b) != 0;
      if ((a | b) == all && a != all && b != all) ++completed_[step.dst_begin + i];
      if ((a | b) != a && (a | b) != b) {
        ++makers_[{step.dst_begin + i, a | b}];
        made_[{where.plan, where.step, i}] = a | b;
      }
      at(where.plan, step.dst(), i) = a | b;
    }
  }

  [[nodiscard]] uint64_t everybody() const { return (uint64_t{1} << world_.size()) - 1; }

  const std::vector<Plan>& world_;
  bool twice_ = false;
  std::vector<uint32_t> completed_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> makers_;       ///< by cell and contributions
  std::map<std::tuple<size_t, size_t, uint32_t>, uint64_t> made_;  ///< contributions by rank, step and offset
  std::vector<MemoryMap> maps_;
  std::vector<std::vector<uint64_t>> memory_;
  std::vector<std::map<std::pair<uint32_t, uint32_t>, uint64_t>> inbox_;
};

/// The step adds to what its destination holds; `addend` is where the other operand lies (invalid: in a message).
bool adds_in_place(const MemoryMap& memory, const Step& step, Chunk& addend) {
  if ((step.flags & (kMapIn | kMapOut)) != 0) return false;
  const auto is_dst = [&](const Chunk& chunk) { return memory.first(chunk) == memory.first(step.dst()); };
  addend = Chunk{};
  if (step.kind == StepKind::recv_reduce) return is_dst(step.src());
  if (step.kind != StepKind::reduce && step.kind != StepKind::accumulate) return false;
  addend = is_dst(step.src()) ? step.src2() : step.src();
  return is_dst(step.src()) || is_dst(step.src2());
}

}  // namespace

bool overlap(const MemoryMap& memory, const Chunk& a, const Chunk& b) {
  return a.valid() && b.valid() && memory.first(a) < memory.first(b) + b.cells() && memory.first(b) < memory.first(a) + a.cells();
}

bool may_run_twice(const Plan& plan, const Step& step) {
  if (step.is_message()) return false;
  const MemoryMap memory(plan);
  return !overlap(memory, step.dst(), step.src()) && !overlap(memory, step.dst(), step.src2());
}

bool is_idempotent(ReduceOp op) { return op == ReduceOp::max || op == ReduceOp::min; }

bool is_implied(const Plan& plan, uint32_t step, uint32_t before) {
  std::vector<bool> precedes(plan.steps.size(), false);
  std::vector<uint32_t> next;
  for (const uint32_t other : plan.deps_of(plan.steps[step])) {
    if (other != before) next.push_back(other);
  }
  while (!next.empty()) {
    const uint32_t at = next.back();
    next.pop_back();
    if (precedes[at]) continue;
    precedes[at] = true;
    const auto more = plan.deps_of(plan.steps[at]);
    next.insert(next.end(), more.begin(), more.end());
  }
  return precedes[before];
}

bool may_change_places(const std::vector<Plan>& world, size_t rank, size_t first, size_t second) {
  const Plan& plan = world[rank];
  const MemoryMap memory(plan);
  const Step &other = plan.steps[first], &moved = plan.steps[second];
  Chunk addend, others_addend;
  if (!adds_in_place(memory, moved, addend) || !adds_in_place(memory, other, others_addend) || moved.op != other.op) return false;
  if (overlap(memory, addend, other.dst()) || overlap(memory, others_addend, moved.dst())) return false;
  for (size_t i = first + 1; i < second; ++i) {
    const Step& between = plan.steps[i];
    for (const Chunk& chunk : {between.dst(), between.src(), between.src2(), between.own()}) {
      if (overlap(memory, chunk, moved.dst())) return false;
    }
  }
  if (plan.regions[moved.dst_region].layout != Layout::data) return true;
  const Contributions contributions(world);
  for (uint32_t offset = 0; offset < moved.cells; ++offset) {
    if (contributions.completed(moved.dst_begin + offset) != 1 && contributions.makers(rank, second, offset) != 1) return false;
  }
  return true;
}

bool may_also_compute(const Plan& plan, size_t grown, uint32_t extra) {
  const Step& step = plan.steps[grown];
  if (!may_run_twice(plan, step)) return false;
  const MemoryMap memory(plan);
  const auto cell_of = [&](Chunk chunk) {
    if (chunk.valid()) chunk = {chunk.region, chunk.begin + extra, chunk.begin + extra + 1};
    return chunk;
  };
  const Chunk dst = cell_of(step.dst()), src = cell_of(step.src()), src2 = cell_of(step.src2()), own = cell_of(step.own());
  const auto computes_it = [&](const Step& other) {
    const auto there = [&](const Chunk& cell, const Chunk& whole) {
      return cell.region == whole.region && (!cell.valid() || (cell.begin >= whole.begin && cell.end <= whole.end));
    };
    const bool alike = other.kind == step.kind && other.op == step.op && other.flags == step.flags && other.summands == step.summands;
    return alike && there(dst, other.dst()) && there(src, other.src()) && there(src2, other.src2()) && there(own, other.own());
  };
  const auto reads = [&](const Step& other) {
    return overlap(memory, other.src(), dst) || overlap(memory, other.src2(), dst) || overlap(memory, other.own(), dst);
  };
  const auto changes = [&](const Step& other) {
    return overlap(memory, other.dst(), dst) || overlap(memory, other.dst(), src) || overlap(memory, other.dst(), src2) ||
           overlap(memory, other.dst(), own);
  };
  bool same_sources = true, read = false;
  for (size_t at = grown + 1; at < plan.steps.size() && !read; ++at) {
    const Step& other = plan.steps[at];
    if (same_sources && computes_it(other)) return true;
    read = reads(other);
    if (!read && overlap(memory, other.dst(), dst)) return true;
    same_sources = same_sources && !changes(other);
  }
  if (!read && plan.regions[step.dst_region].place == Place::scratch) return true;
  for (size_t at = grown; at-- > 0;) {
    if (computes_it(plan.steps[at])) return true;
    if (changes(plan.steps[at])) break;
  }
  return false;
}

bool may_trade_operands(const std::vector<Plan>& world) {
  const codec::Codec* codec = world[0].codec;
  return (codec == nullptr || !codec->homomorphic) && Contributions(world).are_right();
}

}  // namespace isthmus::plan
