// SPDX-License-Identifier: Apache-2.0
// The element maps: where PreMulSum's scalar meets `in`, and where avg divides. Called by the builder's steps. A map is fused
// into the step that reads or stores where that is safe; otherwise it is a step of its own. Fused and separate maps round
// differently in 16-bit types, so an algorithm must complete a cell alike on all ranks; the symbolic checker tells.
#include <algorithm>

#include "plan/builder.h"

namespace isthmus::plan {

/// Whether some of these cells are the caller's own elements that PreMulSum's scalar has not met.
bool Builder::is_raw(const Chunk& src) const {
  if (!plan_.map_in || src.region != kIn) return false;
  return std::find(raw_.begin() + src.begin, raw_.begin() + src.end, true) != raw_.begin() + src.end;
}

/// The mapped copy of these cells that an earlier step has made, or an invalid chunk.
Chunk Builder::mirror_of(const Chunk& src) const {
  const uint16_t region = mirrors_[src.begin];
  if (region == kNoRegion || plan_.regions[region].end < src.end || plan_.regions[region].begin > src.begin) return {};
  return {region, src.begin, src.end};
}

/// The cells as the algorithm means them: mapped. Sends and codecs read elements as they lie, so raw cells are mapped first:
/// once, where they lie if the caller gave us that memory, else into a mirror.
Chunk Builder::mapped(Chunk src, Here here) {
  if (!is_raw(src)) return src;
  if (const Chunk mirror = mirror_of(src); mirror.valid()) return mirror;
  const Region& out = plan_.regions[kOut];
  if (plan_.in_place && src.begin >= out.begin && src.end <= out.end) {
    map_in_place(src, here);
    return src;
  }
  if (std::find(raw_.begin() + src.begin, raw_.begin() + src.end, false) != raw_.begin() + src.end) {
    fail_at(here, "reads cells of `in` of which some have been overwritten in place");
    return src;
  }
  const Chunk mirror = scratch(src.begin, src.end);
  if (!mirror.valid()) return src;
  local_step(StepKind::map, kMapIn, mirror, src, Chunk{}, here);
  std::fill(mirrors_.begin() + src.begin, mirrors_.begin() + src.end, mirror.region);
  return mirror;
}

/// Maps each run of raw cells where it lies.
void Builder::map_in_place(const Chunk& src, Here here) {
  for (uint32_t begin = src.begin; begin < src.end;) {
    uint32_t end = begin;
    while (end < src.end && raw_[end] == raw_[begin]) ++end;
    if (raw_[begin]) {
      local_step(StepKind::map, kMapIn, {kOut, begin, end}, {kIn, begin, end}, Chunk{}, here);
    }
    begin = end;
  }
}

/// For steps that can map as they read: the flag, or the mapped copy in place of `src` where there is one.
uint8_t Builder::map_when_read(Chunk& src, Here here) {
  if (!is_raw(src)) return 0;
  const bool all_raw = std::find(raw_.begin() + src.begin, raw_.begin() + src.end, false) == raw_.begin() + src.end;
  if (all_raw && !mirror_of(src).valid()) return kMapIn;
  src = mapped(src, here);
  return 0;
}

void Builder::complete(Chunk chunk, Here here) {
  if (!writable(chunk, Layout::data, here)) return;
  if (plan_.op != ReduceOp::avg || plan_.group_size == 1) return;  // the average of one is itself
  if (const uint32_t writer = tracker_.unread_writer(memory_.first(chunk), chunk.cells()); writer != kNoStep) {
    Step& step = plan_.steps[writer];
    if (divides_when_storing(plan_, step) && step.dst() == chunk) {
      step.flags |= kMapOut;
      return;
    }
  }
  local_step(StepKind::map, kMapOut, chunk, chunk, Chunk{}, here);
}

}  // namespace isthmus::plan
