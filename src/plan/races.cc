// SPDX-License-Identifier: Apache-2.0
// Races within one rank's plan, by reachability over its dependencies. Called by the symbolic checker.
#include "plan/races.h"

#include <fmt/core.h>

#include <vector>

#include "plan/memory_map.h"
#include "plan/print.h"

namespace isthmus::plan {

namespace {

/// For every step, the set of steps that are complete before it starts.
class Ancestors {
 public:
  explicit Ancestors(const Plan& plan) : words_((plan.steps.size() + 63) / 64), bits_(plan.steps.size() * words_) {
    for (uint32_t step = 0; step < plan.steps.size(); ++step) {
      uint64_t* row = bits_.data() + step * words_;
      for (const uint32_t before : plan.deps_of(plan.steps[step])) {
        const uint64_t* other = bits_.data() + before * words_;
        for (size_t i = 0; i <= before / 64; ++i) row[i] |= other[i];
        row[before / 64] |= uint64_t{1} << (before % 64);
      }
    }
  }
  [[nodiscard]] bool includes(uint32_t step, uint32_t before) const {
    return (bits_[step * words_ + before / 64] >> (before % 64) & 1) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

/// Goes through the steps in plan order with the last writer and the readers since then of every memory cell. If each writer
/// follows those, and each reader its writer, all conflicting steps are ordered, because order is transitive.
class RaceChecker {
 public:
  explicit RaceChecker(const Plan& plan) : plan_(plan), ancestors_(plan), memory_(plan), cells_(memory_.cells()) {}

  Status check() {
    for (uint32_t step = 0; step < plan_.steps.size(); ++step) {
      const Step& what = plan_.steps[step];
      if (what.src_region != kNoRegion) ISTHMUS_TRY(read(what.src(), step));
      if (what.src2_region != kNoRegion) ISTHMUS_TRY(read(what.src2(), step));
      if (what.own_region != kNoRegion) ISTHMUS_TRY(read(what.own(), step));
      if (what.dst_region != kNoRegion) ISTHMUS_TRY(write(what.dst(), step));
    }
    return {};
  }

 private:
  struct Cell {
    uint32_t writer = kNoStep;
    std::vector<uint32_t> readers;
  };

  Status read(const Chunk& chunk, uint32_t step) {
    for (uint32_t i = 0; i < chunk.cells(); ++i) {
      Cell& cell = cells_[memory_.first(chunk) + i];
      ISTHMUS_TRY(follows(step, cell.writer, chunk.begin + i));
      cell.readers.push_back(step);
    }
    return {};
  }

  Status write(const Chunk& chunk, uint32_t step) {
    for (uint32_t i = 0; i < chunk.cells(); ++i) {
      Cell& cell = cells_[memory_.first(chunk) + i];
      ISTHMUS_TRY(follows(step, cell.writer, chunk.begin + i));
      for (const uint32_t reader : cell.readers) ISTHMUS_TRY(follows(step, reader, chunk.begin + i));
      cell.writer = step;
      cell.readers.clear();
    }
    return {};
  }

  [[nodiscard]] Status follows(uint32_t step, uint32_t before, uint32_t cell) const {
    if (before == kNoStep || before == step || ancestors_.includes(step, before)) return {};
    return internal_error(fmt::format("rank {} touches cell {} in two steps that no dependency orders:\n  {}\n  {}", plan_.rank, cell,
                                      to_text(plan_, before), to_text(plan_, step)));
  }

  const Plan& plan_;
  Ancestors ancestors_;
  MemoryMap memory_;
  std::vector<Cell> cells_;
};

}  // namespace

Status check_races(const Plan& plan) { return RaceChecker(plan).check(); }

}  // namespace isthmus::plan
