// SPDX-License-Identifier: Apache-2.0
// Making and mapping of rings, and the seldom halves of reading and writing. See shm_ring.h for the layout.
#include "transport/local/shm_ring.h"

#include <bit>

#include <fmt/core.h>

namespace isthmus::transport {
namespace {

// Memory of a pair: both controls, ring 0, ring 1. Mapped: both controls, ring 0 twice, ring 1 twice.
uint64_t control_bytes() { return memory::round_to_pages(2 * sizeof(RingControl)); }
uint64_t memory_bytes(uint64_t ring_bytes) { return control_bytes() + 2 * ring_bytes; }

Status check_size(uint64_t ring_bytes) {
  if (std::has_single_bit(ring_bytes) && ring_bytes >= RingPair::kLeastBytes && ring_bytes <= RingPair::kMostBytes) return {};
  return invalid_argument(
      fmt::format("a ring of {} bytes: must be a power of two from {} to {}", ring_bytes, RingPair::kLeastBytes, RingPair::kMostBytes));
}

Result<memory::Mapping> map_rings(int fd, uint64_t ring_bytes) {
  const uint64_t start = control_bytes();
  ISTHMUS_ASSIGN(memory::Mapping mapping, memory::Mapping::reserve(start + 4 * ring_bytes));
  ISTHMUS_TRY(mapping.overlay(0, fd, 0, start));
  for (uint64_t copy = 0; copy < 4; ++copy)
    ISTHMUS_TRY(mapping.overlay(start + copy * ring_bytes, fd, start + copy / 2 * ring_bytes, ring_bytes));
  return mapping;
}

}  // namespace

Result<RingPair> RingPair::create(uint64_t ring_bytes) {
  ISTHMUS_TRY(check_size(ring_bytes));
  RingPair pair;
  pair.ring_bytes_ = ring_bytes;
  ISTHMUS_ASSIGN(pair.memory_, memory::create_shared_memory("isthmus-rings", memory_bytes(ring_bytes)));
  ISTHMUS_ASSIGN(pair.mapping_, map_rings(pair.memory_.get(), ring_bytes));
  return pair;
}

Result<RingPair> RingPair::attach(Fd memory, uint64_t ring_bytes) {
  if (!check_size(ring_bytes).ok()) return remote_error(fmt::format("the peer announced rings of {} bytes", ring_bytes));
  ISTHMUS_TRY(memory::check_shared_memory(memory.get(), memory_bytes(ring_bytes)));
  RingPair pair;
  pair.ring_bytes_ = ring_bytes;
  pair.memory_ = std::move(memory);
  ISTHMUS_ASSIGN(pair.mapping_, map_rings(pair.memory_.get(), ring_bytes));
  return pair;
}

Ring RingPair::direction(int index) const {
  std::byte* base = mapping_.bytes().data();
  return {.data = base + control_bytes() + static_cast<uint64_t>(index) * 2 * ring_bytes_,
          .bytes = ring_bytes_,
          .control = reinterpret_cast<RingControl*>(base) + index};
}

bool RingWriter::refresh(uint64_t bytes) {
  head_ = std::atomic_ref(ring_.control->head).load(std::memory_order_seq_cst);
  broken_ = broken_ || tail_ - head_ > ring_.bytes;
  return !broken_ && tail_ - head_ + bytes < ring_.bytes;
}

bool RingReader::publish() {
  published_ = position_;
  std::atomic_ref(ring_.control->head).store(position_, std::memory_order_seq_cst);
  std::atomic_ref flag(ring_.control->writer_sleeps);
  return flag.load(std::memory_order_seq_cst) != 0 && flag.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace isthmus::transport
