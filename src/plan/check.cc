// SPDX-License-Identifier: Apache-2.0
// The two proofs: what every cell must hold in the end, and that the end is reached. Called by tests, the isthmus tool and, on
// demand, by comm/; failures name rank, step, cell and source line.
#include "plan/check.h"

#include <fmt/core.h>

#include <utility>

#include "plan/form.h"
#include "plan/print.h"
#include "plan/races.h"
#include "plan/symbolic.h"
#include "plan/walk.h"

namespace isthmus::plan {

namespace {

/// Each plan by itself, and all of them as parts of one call.
Status check_plans(World world) {
  if (world.empty()) return internal_error("no plans to check");
  for (const Plan& plan : world) {
    ISTHMUS_TRY(check_form(plan));
    const Plan& first = world[0];
    const bool alike = plan.collective == first.collective && plan.root == first.root && plan.op == first.op && plan.codec == first.codec &&
                       plan.group_size == first.group_size && plan.map_in == first.map_in;
    if (!alike) return internal_error(fmt::format("ranks {} and {} have plans of different calls", first.rank, plan.rank));
    if (plan.group_size != static_cast<int32_t>(world.size())) {
      return internal_error(fmt::format("{} plans for a group of {}: all ranks are needed", world.size(), plan.group_size));
    }
  }
  return {};
}

/// The definition of each collective, applied to the end of a symbolic run.
class Outcome {
 public:
  explicit Outcome(const SymbolicRun& run) : run_(run), values_(run.values()), world_(run.walk().world()) {}

  [[nodiscard]] Status check() const {
    for (uint32_t plan = 0; plan < world_.size(); ++plan) {
      ISTHMUS_TRY(world_[plan].collective == Collective::sendrecv ? check_transfers(plan) : check_out(plan));
    }
    return {};
  }

 private:
  [[nodiscard]] Status check_out(uint32_t plan) const {
    const Region& out = world_[plan].regions[kOut];
    for (uint32_t cell = out.begin; cell < out.end; ++cell) {
      if (run_.is_empty(cell)) continue;
      const Values::Id value = run_.at(plan, kOut, cell);
      if (const std::string wrong = fault(plan, cell, value); !wrong.empty()) {
        return internal_error(
            fmt::format("rank {} ends with {} in cell {} of out: {}", world_[plan].rank, values_.describe(value), cell, wrong));
      }
    }
    return {};
  }

  /// What is wrong with the final value of a cell, or nothing.
  [[nodiscard]] std::string fault(uint32_t plan, uint32_t cell, Values::Id value) const {
    const Plan& what = world_[plan];
    if (!values_.is_data(value)) return "no elements";
    if (what.collective == Collective::alltoall) return fault_of_exchange(plan, cell, value);
    if (values_.cell(value) != cell) return "elements of another cell";
    if (!is_reducing(what.collective) && what.collective != Collective::barrier) {
      const uint32_t owner = owner_of(cell);
      if (!values_.only(value, owner)) return fmt::format("rank {}'s elements are wanted", world_[owner].rank);
      return same_everywhere(cell, value) ? "" : "another rank holds other bits";
    }
    if (!values_.complete(value)) return "not every rank has contributed";
    if (values_.is_raw(value)) return "the scalar has not been applied";
    if (values_.is_divided(value) != (what.op == ReduceOp::avg && what.group_size > 1)) return "the sum must be divided exactly once";
    return same_everywhere(cell, value) ? "" : "another rank has combined the contributions in another order";
  }

  /// All-to-all: a block of `out` is what the rank that it is named by has for this one.
  [[nodiscard]] std::string fault_of_exchange(uint32_t plan, uint32_t cell, Values::Id value) const {
    const uint32_t per_block = world_[plan].grid.cells_per_block, from = cell / per_block;
    if (!values_.only(value, from)) return fmt::format("rank {}'s elements are wanted", world_[from].rank);
    const uint32_t wanted = plan * per_block + cell % per_block;
    return values_.cell(value) == wanted ? "" : fmt::format("cell {} of its `in` is wanted", wanted);
  }

  /// Whose elements a gathered or broadcast cell must hold: the one rank's that has it in `in`.
  [[nodiscard]] uint32_t owner_of(uint32_t cell) const {
    uint32_t plan = 0;
    const auto has = [&](const Region& in) { return cell >= in.begin && cell < in.end; };
    while (plan + 1 < world_.size() && !has(world_[plan].regions[kIn])) ++plan;
    return plan;
  }

  /// Whether it is the same value as on the first rank whose `out` has the cell.
  [[nodiscard]] bool same_everywhere(uint32_t cell, Values::Id value) const {
    for (uint32_t plan = 0; plan < world_.size(); ++plan) {
      const Region& out = world_[plan].regions[kOut];
      if (cell >= out.begin && cell < out.end) return values_.identity(run_.at(plan, kOut, cell)) == values_.identity(value);
    }
    return true;
  }

  /// Grouped send/recv: every destination holds what its source held.
  [[nodiscard]] Status check_transfers(uint32_t plan) const {
    for (uint32_t i = 0; i < world_[plan].steps.size(); ++i) {
      const Step& step = world_[plan].steps[i];
      if (!step.dst().valid()) continue;
      const bool local = step.kind == StepKind::copy;
      const Walk::At source = local ? Walk::At{plan, i} : run_.walk().partner({plan, i});
      const Values::Id value = run_.at(plan, step.dst_region, step.dst_begin);
      const bool right =
          values_.is_data(value) && values_.only(value, source.plan) && values_.cell(value) == run_.walk().step(source).src_begin;
      if (!right) return internal_error(fmt::format("rank {} ends with the wrong bytes: {}", world_[plan].rank, to_text(world_[plan], i)));
    }
    return {};
  }

  const SymbolicRun& run_;
  const Values& values_;
  World world_;
};

}  // namespace

Status check_symbolic(World world, uint64_t count, uint64_t seed) { return check_symbolic(world, std::span(&count, 1), seed); }

Status check_symbolic(World world, std::span<const uint64_t> counts, uint64_t seed) {
  ISTHMUS_TRY(check_plans(world));
  for (const Plan& plan : world) ISTHMUS_TRY(check_races(plan));
  for (const uint64_t count : counts) {
    ISTHMUS_ASSIGN(Walk walk, Walk::start(world, count, Reads::pushed));
    SymbolicRun run(std::move(walk));
    ISTHMUS_TRY(run.run(seed++));
    ISTHMUS_TRY(Outcome(run).check());
  }
  return {};
}

Status check_deadlock(World world, uint64_t count, Reads reads) {
  ISTHMUS_TRY(check_plans(world));
  ISTHMUS_ASSIGN(Walk walk, Walk::start(world, count, reads));
  auto& enabled = walk.enabled();
  while (!enabled.empty()) {
    const Walk::Event event = enabled.back();
    enabled.pop_back();
    if (event.is_move) {
      walk.left(event.at);
      walk.landed(event.at);
    } else {
      walk.computed(event.at);
    }
  }
  return walk.done() ? Status() : internal_error("the plans wait for each other:" + walk.describe_stall());
}

}  // namespace isthmus::plan
