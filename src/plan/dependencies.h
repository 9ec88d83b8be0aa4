// SPDX-License-Identifier: Apache-2.0
// Who wrote each memory cell last, and who has read it since: the builder's source of dependencies. Used by plan/builder.cc
// only; cannot fail. Memory cells are numbered by plan/memory_map.h.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace isthmus::plan {

class DependencyTracker {
 public:
  /// There are `cells` memory cells from now on; nobody has touched the new ones.
  void resize(uint32_t cells) { cells_.resize(cells); }

  /// Makes room for that many steps.
  void reserve(size_t steps) {
    seen_by_.reserve(steps);
    readers_.reserve(steps);
  }

  /// Starts step `step` (0, 1, 2, ...): its predecessors will be appended to `found`, each once.
  void begin(uint32_t step, std::vector<uint32_t>& found) {
    step_ = step;
    found_ = &found;
    seen_by_.push_back(step);  // never its own predecessor
  }
  /// The step reads memory cells [first, first + cells): it waits for their writers.
  void read(uint32_t first, uint32_t cells) {
    for (uint32_t i = first; i < first + cells; ++i) {
      depend_on(cells_[i].writer);
      readers_.push_back({step_, cells_[i].readers});
      cells_[i].readers = static_cast<uint32_t>(readers_.size() - 1);
    }
  }
  /// The step writes them: it waits for their readers, or where there are none, for their writer. Call after its reads.
  void write(uint32_t first, uint32_t cells) {
    for (uint32_t i = first; i < first + cells; ++i) {
      Cell& cell = cells_[i];
      if (cell.readers == kNone) depend_on(cell.writer);  // otherwise implied: every reader waits for the writer
      for (uint32_t at = cell.readers; at != kNone; at = readers_[at].next) depend_on(readers_[at].step);
      cell = {.writer = step_, .readers = kNone};
    }
  }

  /// How many of these memory cells have been written.
  [[nodiscard]] uint32_t written(uint32_t first, uint32_t cells) const;
  /// The step that wrote all of these memory cells last, if it is one and nobody has read them since; else kNoStep.
  [[nodiscard]] uint32_t unread_writer(uint32_t first, uint32_t cells) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Cell {
    uint32_t writer = kNoStep;
    uint32_t readers = kNone;  ///< head of a list in readers_
  };
  struct Reader {
    uint32_t step;
    uint32_t next;
  };
  void depend_on(uint32_t step) {
    if (step == kNoStep || seen_by_[step] == step_) return;
    seen_by_[step] = step_;
    found_->push_back(step);
  }

  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  std::vector<uint32_t> seen_by_;  ///< step -> the last step that lists it
  std::vector<uint32_t>* found_ = nullptr;
  uint32_t step_ = 0;
};

}  // namespace isthmus::plan
