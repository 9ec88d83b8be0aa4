// SPDX-License-Identifier: Apache-2.0
// The form of a plan, checked step by step. Called before plans are run by the abstract machine; reports the first fault.
#include "plan/form.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "plan/print.h"

namespace isthmus::plan {

namespace {

/// Which operands a kind of step has, and their layouts. `scales`: src2 is present if the codec needs scales.
struct Operands {
  bool dst, src, src2, scales;
};

Operands operands_of(StepKind kind) {
  switch (kind) {
    case StepKind::send:
      return {.dst = false, .src = true, .src2 = false, .scales = false};
    case StepKind::recv:
      return {.dst = true, .src = false, .src2 = false, .scales = false};
    case StepKind::recv_reduce:
    case StepKind::copy:
    case StepKind::map:
    case StepKind::measure:
      return {.dst = true, .src = true, .src2 = false, .scales = false};
    case StepKind::reduce:
    case StepKind::accumulate:
      return {.dst = true, .src = true, .src2 = true, .scales = false};
    case StepKind::encode:
    case StepKind::decode:
      return {.dst = true, .src = true, .src2 = false, .scales = true};
    case StepKind::native:
      break;
  }
  return {};
}

class FormChecker {
 public:
  explicit FormChecker(const Plan& plan) : plan_(plan), slot_holder_(plan.slots.size(), kNoStep) {}

  Status check() {
    ISTHMUS_TRY(check_tables());
    for (uint32_t i = 0; i < plan_.steps.size(); ++i) {
      if (const char* wrong = fault(i); wrong != nullptr) {
        return internal_error(fmt::format("rank {} is malformed: {}: {}", plan_.rank, wrong, to_text(plan_, i)));
      }
    }
    for (const PeerTraffic& traffic : plan_.peers) {
      if (traffic.sends + traffic.recvs == 0) return malformed(fmt::format("lists rank {} as a peer for nothing", traffic.peer));
    }
    return check_successors();
  }

 private:
  [[nodiscard]] Status malformed(const std::string& wrong) const {
    return internal_error(fmt::format("rank {} is malformed: {}", plan_.rank, wrong));
  }

  [[nodiscard]] Status check_tables() const {
    if (plan_.rank < 0 || plan_.rank >= plan_.ranks || plan_.group_size < 1) return malformed("rank or group out of range");
    if (plan_.regions.size() < 2 || plan_.grid.blocks == 0 || plan_.grid.cells_per_block == 0) return malformed("no grid or no buffers");
    for (const Region& region : plan_.regions) {
      if (region.begin > region.end || region.end > plan_.grid.cells()) return malformed("a region lies outside the grid");
      if (region.layout != Layout::data && plan_.codec == nullptr) return malformed("an encoded region without a codec");
    }
    for (const Step& step : plan_.steps) {
      if (uint64_t{step.deps_begin} + step.deps_count > plan_.deps.size()) return malformed("a list of dependencies ends nowhere");
    }
    return {};
  }

  [[nodiscard]] Status check_successors() const {
    if (plan_.successors_begin.size() != plan_.steps.size() + 1 || plan_.successors.size() != plan_.successors_begin.back()) {
      return malformed("the successor table has the wrong size");
    }
    size_t dependencies = 0;
    for (uint32_t i = 0; i < plan_.steps.size(); ++i) {
      dependencies += plan_.steps[i].deps_count;
      if (plan_.successors_begin[i] > plan_.successors_begin[i + 1]) return malformed("the successor table is not sorted");
      for (const uint32_t next : plan_.successors_of(i)) {
        const auto before = next < plan_.steps.size() ? plan_.deps_of(plan_.steps[next]) : std::span<const uint32_t>{};
        if (std::find(before.begin(), before.end(), i) == before.end()) return malformed("successors and dependencies differ");
      }
    }
    return dependencies == plan_.successors.size() ? Status() : malformed("successors and dependencies differ in number");
  }

  /// What is wrong with a step, or null.
  const char* fault(uint32_t index) {
    const Step& step = plan_.steps[index];
    Operands wants = operands_of(step.kind);
    if (step.kind == StepKind::native) wants = {step.dst().valid(), step.src().valid(), step.src2().valid(), false};
    wants.src2 |= wants.scales && plan_.codec != nullptr && plan_.codec->needs_scale;
    if (step.cells == 0) return "it has no cells";
    for (const char* wrong :
         {operand_fault(step.dst(), wants.dst), operand_fault(step.src(), wants.src), operand_fault(step.src2(), wants.src2),
          operand_fault(step.own(), wants.src2 && step.kind == StepKind::encode), dependency_fault(index)}) {
      if (wrong != nullptr) return wrong;
    }
    for (const char* wrong : {place_fault(step), layout_fault(step), flag_fault(step), message_fault(step), slot_fault(index)}) {
      if (wrong != nullptr) return wrong;
    }
    return nullptr;
  }

  [[nodiscard]] const char* operand_fault(const Chunk& chunk, bool wanted) const {
    if (!wanted) return chunk.valid() ? "it has an operand too many" : nullptr;
    if (chunk.region >= plan_.regions.size()) return "it lacks an operand";
    const Region& region = plan_.regions[chunk.region];
    const bool inside = chunk.begin >= region.begin && chunk.begin < chunk.end && chunk.end <= region.end;
    return inside ? nullptr : "an operand lies outside its buffer";
  }

  [[nodiscard]] const char* place_fault(const Step& step) const {
    if (step.dst_region == kIn) return "it writes the caller's `in`";
    if (plan_.collective == Collective::sendrecv) return nullptr;
    const uint32_t per_block = plan_.grid.cells_per_block;
    const uint32_t place = (step.dst().valid() ? step.dst_begin : step.src_begin) % per_block;
    const bool alike =
        (!step.src().valid() || step.src_begin % per_block == place) && (!step.src2().valid() || step.src2_begin % per_block == place);
    return alike ? nullptr : "its operands lie at different places within their blocks";
  }

  [[nodiscard]] Layout layout(const Chunk& chunk) const { return plan_.regions[chunk.region].layout; }

  /// For how many encodings the chunk's cells have room: it decides their bytes.
  [[nodiscard]] uint32_t room(const Chunk& chunk) const {
    return layout(chunk) == Layout::encoded ? plan_.regions[chunk.region].summands : 0;
  }

  [[nodiscard]] const char* layout_fault(const Step& step) const {
    const auto is = [&](const Chunk& chunk, Layout wanted) { return !chunk.valid() || layout(chunk) == wanted; };
    bool fits = true;
    switch (step.kind) {
      case StepKind::reduce:
      case StepKind::map:
        fits = is(step.dst(), Layout::data) && is(step.src(), Layout::data) && is(step.src2(), Layout::data);
        break;
      case StepKind::recv_reduce:
        fits = layout(step.dst()) == layout(step.src());
        break;
      case StepKind::copy:
        fits = layout(step.dst()) == layout(step.src()) && room(step.dst()) == room(step.src());
        break;
      case StepKind::encode:
        fits = is(step.dst(), Layout::encoded) && is(step.src(), Layout::data) && is(step.src2(), Layout::scale) &&
               is(step.own(), Layout::scale);
        break;
      case StepKind::decode:
        fits = is(step.dst(), Layout::data) && is(step.src(), Layout::encoded) && is(step.src2(), Layout::scale);
        break;
      case StepKind::accumulate:
        fits = is(step.dst(), Layout::encoded) && is(step.src(), Layout::encoded) && is(step.src2(), Layout::encoded);
        break;
      case StepKind::measure:
        fits = is(step.dst(), Layout::scale) && is(step.src(), Layout::data);
        break;
      case StepKind::send:
      case StepKind::recv:
      case StepKind::native:
        break;
    }
    return fits ? nullptr : "an operand has the wrong layout";
  }

  [[nodiscard]] const char* flag_fault(const Step& step) const {
    const bool computes = step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce || step.kind == StepKind::map;
    const bool maps_in = (step.flags & kMapIn) != 0, maps_out = (step.flags & kMapOut) != 0;
    if (maps_in && (step.src_region != kIn || !(computes || step.kind == StepKind::copy))) return "it cannot map what it reads";
    if (maps_out && !(step.dst().valid() && divides_when_storing(plan_, step))) return "it cannot map what it stores";
    if (step.kind == StepKind::map && maps_in == maps_out) return "a map step applies one map";
    if ((step.flags & kReadInPlace) != 0 && step.kind != StepKind::send) return "only sends are read in place";
    return nullptr;
  }

  [[nodiscard]] const char* dependency_fault(uint32_t index) const {
    const auto before = plan_.deps_of(plan_.steps[index]);
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] >= index) return "it depends on a later step";
      if (std::find(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(i), before[i]) !=
          before.begin() + static_cast<std::ptrdiff_t>(i)) {
        return "it lists a dependency twice";
      }
    }
    return nullptr;
  }

  [[nodiscard]] const char* message_fault(const Step& step) const {
    if (!step.is_message()) return step.peer < 0 ? nullptr : "a local step has a peer";
    if (step.peer < 0 || step.peer >= plan_.ranks || step.peer == plan_.rank) return "its peer is not another rank";
    return nullptr;
  }

  [[nodiscard]] const char* slot_fault(uint32_t index) {
    const Step& step = plan_.steps[index];
    if (step.kind != StepKind::recv_reduce) return step.slot == kNoSlot && step.slot_after == kNoStep ? nullptr : "it needs no inbox slot";
    if (step.slot >= plan_.slots.size()) return "it has no inbox slot";
    if (step.slot_after != slot_holder_[step.slot]) return "its inbox slot is not free: another step holds it";
    slot_holder_[step.slot] = index;
    const Region& slot = plan_.slots[step.slot];
    const Region& region = plan_.regions[step.dst_region];
    const bool fits = slot.layout == region.layout && slot.end - slot.begin >= step.cells && slot.summands >= region.summands;
    return fits ? nullptr : "the message does not fit into its inbox slot";
  }

  const Plan& plan_;
  std::vector<uint32_t> slot_holder_;
};

}  // namespace

Status check_form(const Plan& plan) { return FormChecker(plan).check(); }

}  // namespace isthmus::plan
