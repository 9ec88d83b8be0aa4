// SPDX-License-Identifier: Apache-2.0
// Last writers and readers per memory cell. Called by plan/builder.cc for every step; cannot fail.
#include "plan/dependencies.h"

namespace isthmus::plan {

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
