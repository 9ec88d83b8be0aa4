// SPDX-License-Identifier: Apache-2.0
// Runs plans on symbolic values. Called by check_symbolic(); reports the first step that goes wrong.
#include "plan/symbolic.h"

#include <fmt/core.h>

#include <utility>

#include "base/rng.h"
#include "plan/print.h"

namespace isthmus::plan {

SymbolicRun::SymbolicRun(Walk walk)
    : walk_(std::move(walk)), values_(static_cast<uint32_t>(walk_.world().size()), walk_.world().front().codec) {
  for (const Plan& plan : walk_.world()) {
    const MemoryMap& map = maps_.emplace_back(plan);
    memory_.emplace_back(map.cells(), Values::kNothing);
    inbox_.emplace_back(plan.slots.size());
  }
  fill_inputs();
}

void SymbolicRun::fill_inputs() {
  for (uint32_t rank = 0; rank < maps_.size(); ++rank) {
    const Plan& plan = walk_.world()[rank];
    for (size_t at = 0; at < plan.regions.size(); ++at) {
      const Region& region = plan.regions[at];
      const auto index = static_cast<uint16_t>(at);  // chunks name regions by 16 bits, so plans have no more
      if (region.place != Place::in && region.place != Place::user) continue;
      for (uint32_t cell = region.begin; cell < region.end; ++cell) {
        memory_[rank][maps_[rank].first({index, cell, cell + 1})] = values_.input(rank, cell, plan.map_in);
      }
    }
  }
}

bool SymbolicRun::is_empty(uint32_t cell) const {
  return walk_.world()[0].collective != Collective::sendrecv && walk_.binding().elements(cell, cell + 1) == 0;
}

Status SymbolicRun::run(uint64_t seed) {
  CounterRng rng(seed, 0);
  auto& enabled = walk_.enabled();
  while (!enabled.empty()) {
    std::swap(enabled[rng.below(enabled.size())], enabled.back());
    const Walk::Event event = enabled.back();
    enabled.pop_back();
    if (event.is_move) {
      ISTHMUS_TRY(move(event.at));
      walk_.left(event.at);
      walk_.landed(event.at);
    } else {
      ISTHMUS_TRY(compute(event.at));
      walk_.computed(event.at);
    }
  }
  return walk_.done() ? Status() : internal_error("the plans wait for each other:" + walk_.describe_stall());
}

Status SymbolicRun::at_step(Walk::At at, const Status& why) const {
  const Plan& plan = walk_.world()[at.plan];
  return internal_error(fmt::format("rank {} {}: {}", plan.rank, why.text(), to_text(plan, at.step)));
}

/// Both ends of a message must mean the same bytes, whatever the count.
Status SymbolicRun::fits(const Plan& from, const Step& send, const Plan& to, const Step& recv) const {
  const Region& source = from.regions[send.src_region];
  const Region& target = to.regions[recv.dst_region];
  const uint32_t per_block = from.grid.cells_per_block;
  const bool placed = from.collective == Collective::sendrecv || send.src_begin % per_block == recv.dst_begin % per_block;
  if (send.cells != recv.cells || !placed) return internal_error("receives a message of another size");
  const bool alike = source.layout == target.layout && (source.layout != Layout::encoded || source.summands == target.summands);
  return alike ? Status() : internal_error("receives a message of another layout");
}

Status SymbolicRun::move(Walk::At send) {
  const Walk::At receiver = walk_.partner(send);
  const Plan& from = walk_.world()[send.plan];
  const Plan& to = walk_.world()[receiver.plan];
  const Step& source = walk_.step(send);
  const Step& target = walk_.step(receiver);
  if (Status fit = fits(from, source, to, target); !fit.ok()) return at_step(receiver, fit);
  const bool to_inbox = target.kind == StepKind::recv_reduce;
  Cells* slot = to_inbox ? &inbox_[receiver.plan][target.slot] : nullptr;
  if (to_inbox) slot->assign(target.cells, Values::kNothing);
  for (uint32_t i = 0; i < source.cells; ++i) {
    if (is_empty(source.src_begin + i)) continue;
    const Values::Id value = load(send.plan, source.src(), i);
    if (value == Values::kNothing) return at_step(send, internal_error("sends a cell that nobody has written"));
    if (values_.is_raw(value) && is_reducing(from.collective)) {
      return at_step(send, internal_error(fmt::format("sends {} before its scalar is applied", values_.describe(value))));
    }
    (to_inbox ? (*slot)[i] : memory_[receiver.plan][maps_[receiver.plan].first(target.dst()) + i]) = value;
  }
  return {};
}

Status SymbolicRun::compute(Walk::At at) {
  const Step& step = walk_.step(at);
  if (!step.dst().valid()) return {};
  for (uint32_t i = 0; i < step.cells; ++i) {
    if (is_empty(step.dst_begin + i)) continue;
    auto result = result_of(at, step, i);
    if (!result.ok()) return at_step(at, result.status());
    memory_[at.plan][maps_[at.plan].first(step.dst()) + i] = *result;
  }
  return {};
}

/// One cell of a step's destination.
Result<Values::Id> SymbolicRun::result_of(Walk::At at, const Step& step, uint32_t offset) {
  const Values::Id a = load(at.plan, step.src(), offset);
  const Values::Id b = load(at.plan, step.src2(), offset);
  const Plan& plan = walk_.world()[at.plan];
  switch (step.kind) {
    case StepKind::recv_reduce:
      return combined(at, step, a, inbox_[at.plan][step.slot][offset]);
    case StepKind::reduce:
      return combined(at, step, a, b);
    case StepKind::copy:
    case StepKind::map:
      if (a == Values::kNothing) return internal_error("copies a cell that nobody has written");
      if ((step.flags & kMapIn) != 0) return values_.map_in(a, at.plan, false);
      return (step.flags & kMapOut) != 0 ? values_.divide(a, false) : Result<Values::Id>(a);
    case StepKind::measure:
      return values_.measure(a);
    case StepKind::encode:
      return values_.encode(a, b, load(at.plan, step.own(), offset), at.plan);
    case StepKind::accumulate:
      return values_.accumulate(a, b, plan.regions[step.dst_region].summands);
    case StepKind::decode: {
      ISTHMUS_ASSIGN(const Values::Id sum, values_.decode(a, b, step.summands));
      return (step.flags & kMapOut) != 0 ? values_.divide(sum, true) : Result<Values::Id>(sum);
    }
    case StepKind::native:
    case StepKind::send:
    case StepKind::recv:
      break;
  }
  return internal_error(fmt::format("nobody knows what a {} step computes", name_of(step.kind)));
}

Result<Values::Id> SymbolicRun::combined(Walk::At at, const Step& step, Values::Id a, Values::Id b) {
  const Plan& plan = walk_.world()[at.plan];
  const Region& region = plan.regions[step.dst_region];
  const ReduceOp plan_op = plan.op == ReduceOp::avg ? ReduceOp::sum : plan.op;
  const ReduceOp wanted = region.layout == Layout::data ? plan_op : region.layout == Layout::scale ? ReduceOp::max : ReduceOp::sum;
  if (step.op != wanted) {
    return internal_error(fmt::format("reduces with {} where {} is wanted", isthmus::name_of(step.op), isthmus::name_of(wanted)));
  }
  if (region.layout == Layout::encoded) return values_.accumulate(a, b, region.summands);
  if (region.layout == Layout::scale) return values_.join_scales(a, b);
  if ((step.flags & kMapIn) != 0) {
    ISTHMUS_ASSIGN(a, values_.map_in(a, at.plan, true));
  }
  ISTHMUS_ASSIGN(const Values::Id sum, values_.combine(a, b, step.op));
  return (step.flags & kMapOut) != 0 ? values_.divide(sum, true) : Result<Values::Id>(sum);
}

}  // namespace isthmus::plan
