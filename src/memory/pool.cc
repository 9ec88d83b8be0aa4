// SPDX-License-Identifier: Apache-2.0
// Size-class free lists behind Pool. Classes are powers of two and their three quarter steps' midpoint (1, 1.5, 2, 3, 4, ...), so a
// loan wastes at most a third. Called by exec/; lend() fails only when the system has no memory.
#include "memory/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <string>
#include <utility>

namespace isthmus::memory {

namespace {
constexpr size_t kSmallest = 256;
constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Block& Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Block::give_back() {
  pool_->take_back(data_, bytes_);
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

Pool::~Pool() {
  for (auto& list : idle_) {
    for (std::byte* data : list) std::free(data);
  }
}

int Pool::class_of(size_t bytes) {
  if (bytes <= kSmallest) return 0;
  const size_t units = bytes / kSmallest + (bytes % kSmallest != 0 ? 1 : 0);
  const int log = std::bit_width(units - 1);  // the smallest power of two that holds it is 2^log units
  const bool fits_middle = units <= (size_t{3} << (log - 1)) / 2 && log >= 2;
  return fits_middle ? 2 * log - 1 : 2 * log;
}

size_t Pool::class_bytes(int size_class) {
  const int log = (size_class + 1) / 2;
  return size_class % 2 == 0 ? kSmallest << log : kSmallest * (size_t{3} << (log - 1)) / 2;
}

Result<Block> Pool::lend(size_t bytes) {
  if (bytes == 0) return Block{};
  const int size_class = class_of(bytes);
  if (size_class >= kClasses)
    return system_error("cannot lend " + std::to_string(bytes) + " bytes of call memory: larger than any size class");
  const size_t rounded = class_bytes(size_class);
  auto& list = idle_[static_cast<size_t>(size_class)];
  std::byte* data = nullptr;
  if (!list.empty()) {
    data = list.back();
    list.pop_back();
    counters_.idle_bytes -= rounded;
  } else {
    const size_t alignment = rounded >= kHugePage ? kHugePage : kCacheLine;
    data = static_cast<std::byte*>(std::aligned_alloc(alignment, (rounded + alignment - 1) / alignment * alignment));
    if (data == nullptr) return system_error("out of memory: no " + std::to_string(rounded) + " bytes for a call's scratch or inbox");
    if (rounded >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);  // advice only: failure changes nothing
    ++counters_.system_allocations;
    // The list can then always take the block back without allocating.
    list.reserve(std::max<size_t>(list.capacity(), static_cast<size_t>(counters_.system_allocations)));
  }
  counters_.lent_bytes += rounded;
  counters_.peak_lent_bytes = std::max(counters_.peak_lent_bytes, counters_.lent_bytes);
  return Block{this, data, bytes};
}

void Pool::take_back(std::byte* data, size_t bytes) {
  const int size_class = class_of(bytes);
  const size_t rounded = class_bytes(size_class);
  assert(counters_.lent_bytes >= rounded);
  counters_.lent_bytes -= rounded;
  if (counters_.idle_bytes + rounded > max_idle_bytes_) {
    std::free(data);
    return;
  }
  counters_.idle_bytes += rounded;
  idle_[static_cast<size_t>(size_class)].push_back(data);
}

}  // namespace isthmus::memory
