// SPDX-License-Identifier: Apache-2.0
// Last writers and readers per memory cell. Called by plan/builder.cc for every step; cannot fail.
#include "plan/dependencies.h"

namespace isthmus::plan {

void DependencyTracker::begin(uint32_t step) {
  step_ = step;
  found_.clear();
  seen_by_.resize(step + size_t{1}, kNoStep);
  seen_by_[step] = step;  // never its own predecessor
}

void DependencyTracker::depend_on(uint32_t step) {
  if (step == kNoStep || seen_by_[step] == step_) return;
  seen_by_[step] = step_;
  found_.push_back(step);
}

void DependencyTracker::read(uint32_t first, uint32_t cells) {
  for (uint32_t i = first; i < first + cells; ++i) {
    depend_on(cells_[i].writer);
    readers_.push_back({step_, cells_[i].readers});
    cells_[i].readers = static_cast<uint32_t>(readers_.size() - 1);
  }
}

void DependencyTracker::write(uint32_t first, uint32_t cells) {
  for (uint32_t i = first; i < first + cells; ++i) {
    Cell& cell = cells_[i];
    if (cell.readers == kNone) depend_on(cell.writer);  // otherwise implied: every reader waits for the writer
    for (uint32_t at = cell.readers; at != kNone; at = readers_[at].next) depend_on(readers_[at].step);
    cell = {.writer = step_, .readers = kNone};
  }
}

uint32_t DependencyTracker::written(uint32_t first, uint32_t cells) const {
  uint32_t total = 0;
  for (uint32_t i = first; i < first + cells; ++i) total += cells_[i].writer != kNoStep;
  return total;
}

uint32_t DependencyTracker::unread_writer(uint32_t first, uint32_t cells) const {
  const uint32_t writer = cells_[first].writer;
  for (uint32_t i = first; i < first + cells; ++i) {
    if (cells_[i].writer != writer || cells_[i].readers != kNone) return kNoStep;
  }
  return writer;
}

}  // namespace isthmus::plan
