// SPDX-License-Identifier: Apache-2.0
// One symbolic run of all ranks' plans: memory cells hold values (plan/values.h) instead of elements. Used by check_symbolic(),
// which says what every cell must hold in the end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/memory_map.h"
#include "plan/values.h"
#include "plan/walk.h"

namespace isthmus::plan {

class SymbolicRun {
 public:
  /// Takes the walk over; fills every rank's `in` (and user buffers) with its own elements.
  explicit SymbolicRun(Walk walk);

  /// Carries out all steps in an order that depends on the seed. Fails at the first step that goes wrong, or with the circle of
  /// steps that wait for each other.
  Status run(uint64_t seed);

  [[nodiscard]] const Values& values() const { return values_; }
  [[nodiscard]] const Walk& walk() const { return walk_; }
  /// What that plan's memory holds at a grid cell of a region.
  [[nodiscard]] Values::Id at(uint32_t plan, uint16_t region, uint32_t cell) const {
    return memory_[plan][maps_[plan].first({region, cell, cell + 1})];
  }
  /// Cells without elements at this count are never looked at.
  [[nodiscard]] bool is_empty(uint32_t cell) const;

 private:
  using Cells = std::vector<Values::Id>;

  void fill_inputs();
  Status move(Walk::At send);
  Status compute(Walk::At at);
  [[nodiscard]] Status fits(const Plan& from, const Step& send, const Plan& to, const Step& recv) const;
  [[nodiscard]] Result<Values::Id> result_of(Walk::At at, const Step& step, uint32_t offset);
  [[nodiscard]] Result<Values::Id> combined(Walk::At at, const Step& step, Values::Id a, Values::Id b);
  [[nodiscard]] Values::Id load(uint32_t plan, const Chunk& chunk, uint32_t offset) const {
    return chunk.valid() ? memory_[plan][maps_[plan].first(chunk) + offset] : Values::kNothing;
  }
  [[nodiscard]] Status at_step(Walk::At at, const Status& why) const;

  Walk walk_;
  Values values_;
  std::vector<MemoryMap> maps_;            ///< by plan
  std::vector<Cells> memory_;              ///< by plan and memory cell
  std::vector<std::vector<Cells>> inbox_;  ///< by plan and slot
};

}  // namespace isthmus::plan
