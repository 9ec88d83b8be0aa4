// SPDX-License-Identifier: Apache-2.0
// Numbers the memory cells of a plan: one for every grid cell of every buffer, and only one where `in` and `out` of an in-place
// plan are the same memory. Used by the builder and the symbolic checker. Cannot fail.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace isthmus::plan {

class MemoryMap {
 public:
  MemoryMap() = default;
  explicit MemoryMap(const Plan& plan) {
    for (const Region& region : plan.regions) add(region, plan.in_place, plan.grid.cells());
  }

  /// Adds the next region of the plan.
  void add(const Region& region, bool in_place, uint32_t grid_cells) {
    const bool shared = in_place && (region.place == Place::in || region.place == Place::out);
    if (shared && cells_ == 0) cells_ = grid_cells;  // `in` and `out` come first, and show the same cells at the same place
    first_of_cell_0_.push_back(shared ? 0 : cells_ - region.begin);
    if (!shared) cells_ += region.end - region.begin;
  }

  /// The number of the chunk's first memory cell; the others follow.
  [[nodiscard]] uint32_t first(const Chunk& chunk) const { return first_of_cell_0_[chunk.region] + chunk.begin; }
  [[nodiscard]] uint32_t cells() const { return cells_; }

 private:
  std::vector<uint32_t> first_of_cell_0_;  ///< per region, modulo 2^32
  uint32_t cells_ = 0;
};

}  // namespace isthmus::plan
