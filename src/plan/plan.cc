// SPDX-License-Identifier: Apache-2.0
// Plans as values: sizes, hashes, and the binding of a count to the grid. Called by exec/ for every call (bind) and by the
// checkers, the cost walk and the printer. Nothing here can fail.
#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <type_traits>

#include "base/hash.h"

namespace isthmus::plan {

std::string_view name_of(StepKind kind) {
  static constexpr std::array<std::string_view, kStepKinds> kNames = {"send",   "recv",       "recv_reduce", "copy",    "reduce", "map",
                                                                      "encode", "accumulate", "decode",      "measure", "native"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

template <typename T>
size_t heap_bytes(const std::vector<T>& items) {
  return items.capacity() * sizeof(T);
}

}  // namespace

size_t Plan::bytes() const {
  return sizeof(Plan) + name.capacity() + heap_bytes(regions) + heap_bytes(steps) + heap_bytes(deps) + heap_bytes(successors) +
         heap_bytes(successors_begin) + heap_bytes(slots) + heap_bytes(peers) + heap_bytes(sites);
}

uint64_t Plan::hash() const {
  Hasher hasher;
  hasher.add(collective).add(rank).add(ranks).add(group_size).add(root).add(in_place).add(op).add(map_in);
  hasher.add(codec == nullptr ? 0 : codec->id).add(grid.blocks).add(grid.cells_per_block).add(grid.align);
  for (const Region& region : regions) hasher.add(region.place).add(region.layout).add(region.summands).add(region.begin).add(region.end);
  static_assert(std::has_unique_object_representations_v<Step>, "steps are hashed as bytes");
  for (Step step : steps) {
    step.site = 0;
    hasher.add(std::as_bytes(std::span(&step, 1)));
  }
  hasher.add(std::as_bytes(std::span(deps)));
  return hasher.value();
}

bool divides_when_storing(const Plan& plan, const Step& step) {
  if (plan.regions[step.dst_region].layout != Layout::data) return false;
  if (step.kind == StepKind::decode) {
    return plan.codec != nullptr && plan.codec->homomorphic && step.summands == static_cast<uint32_t>(plan.group_size);
  }
  return step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce || step.kind == StepKind::map;
}

uint64_t split_point(uint64_t count, uint32_t cells, uint32_t align, uint32_t cell) {
  const uint64_t units = count / align + (count % align != 0);
  const uint64_t every_cell = units / cells;
  const uint64_t bigger_cells = units % cells;
  return std::min(count, (every_cell * cell + std::min<uint64_t>(cell, bigger_cells)) * align);
}

void bind(const Grid& grid, uint64_t count, Binding& binding) {
  binding.count = count;
  binding.offsets.resize(grid.cells() + size_t{1});
  uint64_t* offset = binding.offsets.data();
  for (uint32_t block = 0; block < grid.blocks; ++block) {
    for (uint32_t cell = 0; cell < grid.cells_per_block; ++cell) {
      *offset++ = block * count + split_point(count, grid.cells_per_block, grid.align, cell);
    }
  }
  *offset = grid.blocks * count;
}

uint64_t region_bytes(const Plan& plan, const Region& region, const Binding& binding, size_t element_size, uint32_t begin, uint32_t end) {
  if (region.layout == Layout::data) return binding.elements(begin, end) * element_size;
  assert(plan.codec != nullptr);
  uint64_t bytes = 0;
  for (uint32_t cell = begin; cell < end; ++cell) {
    const uint64_t elements = binding.elements(cell, cell + 1);
    if (elements == 0) continue;
    bytes += region.layout == Layout::scale ? plan.codec->scale_bytes(*plan.codec, elements)
                                            : plan.codec->encoded_bytes(*plan.codec, elements, region.summands);
  }
  return bytes;
}

}  // namespace isthmus::plan
