// SPDX-License-Identifier: Apache-2.0
// Who wrote each memory cell last, and who has read it since: the builder's source of dependencies. Used by plan/builder.cc
// only; cannot fail. Memory cells are numbered by plan/memory_map.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace isthmus::plan {

class DependencyTracker {
 public:
  /// There are `cells` memory cells from now on; nobody has touched the new ones.
  void resize(uint32_t cells) { cells_.resize(cells); }

  /// Starts step `step` (numbers must rise); what it depends on is collected anew.
  void begin(uint32_t step);
  /// The step reads memory cells [first, first + cells): it waits for their writers.
  void read(uint32_t first, uint32_t cells);
  /// The step writes them: it waits for their readers, or where there are none, for their writer. Call after its reads.
  void write(uint32_t first, uint32_t cells);
  /// The step's predecessors, each once.
  [[nodiscard]] std::span<const uint32_t> found() const { return found_; }

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
  void depend_on(uint32_t step);

  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  std::vector<uint32_t> seen_by_;  ///< step -> the last step that lists it
  std::vector<uint32_t> found_;
  uint32_t step_ = 0;
};

}  // namespace isthmus::plan
