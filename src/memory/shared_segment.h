// SPDX-License-Identifier: Apache-2.0
// The memory behind ncclMemAlloc on hosts: allocations that peers on the same host may map and read where they lie. Owned by
// Process; allocate and free come from the user's threads, find and share from transport/local, so all calls are thread-safe.
// Fails where shared memory or descriptors run out, and on addresses that were never given out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/status.h"
#include "memory/shared_memory.h"

namespace isthmus::memory {

class SharedSegments {
 public:
  /// Names memory to other processes. Segment numbers start at 1 and are never used again.
  struct Place {
    uint64_t segment = 0;
    uint64_t offset = 0;
  };
  /// What another process needs to map a segment.
  struct Shared {
    Fd fd;  ///< lets its holder read, not write, where the kernel can tell the difference (5.1)
    uint64_t bytes = 0;
  };

  SharedSegments() = default;
  SharedSegments(const SharedSegments&) = delete;
  SharedSegments& operator=(const SharedSegments&) = delete;

  /// Zeroed memory of at least `bytes` (> 0), page-aligned. Costs a descriptor. A child made by fork() shares it, not copies it.
  Result<std::byte*> allocate(uint64_t bytes);
  /// Gives back what allocate() returned; invalid_argument for any other address. Mappings that peers hold stay readable.
  Status release(void* address);
  [[nodiscard]] bool owns(const void* address) const;

  /// Where `memory` lies, if all of it lies in one segment. Cheap when there are no segments.
  [[nodiscard]] std::optional<Place> find(std::span<const std::byte> memory) const;
  /// A duplicate descriptor of a living segment.
  [[nodiscard]] Result<Shared> share(uint64_t segment) const;
  [[nodiscard]] bool alive(uint64_t segment) const;
  /// Grows with every release: tells who keeps copies of descriptors when to look through them.
  [[nodiscard]] uint64_t releases() const { return releases_.load(std::memory_order_acquire); }

 private:
  struct Segment {
    uint64_t id = 0;
    Fd fd;
    Mapping mapping;
  };
  using ByAddress = std::map<uintptr_t, Segment>;
  [[nodiscard]] ByAddress::const_iterator containing(uintptr_t address) const;

  mutable std::mutex mutex_;
  ByAddress segments_;
  uint64_t last_id_ = 0;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> releases_{0};
};

}  // namespace isthmus::memory
