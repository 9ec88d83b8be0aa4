// SPDX-License-Identifier: Apache-2.0
// Moves memory that other processes read again and again into huge pages. The system pins what it reads for another process page by
// page, which takes half as long as copying it, and with huge pages next to nothing. Moving costs as much as some ten readings (0.3 ms;
// more where a virtual machine's host must find the memory first), so it is done for memory that is in use for a while, one page at a
// time, and only where all of it is the process's own and present already: nothing grows. Contents and addresses stay. Used by Shm;
// where the system cannot, or its administrator has switched huge pages off, nothing happens. Nothing here fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::memory {

class HugePages {
 public:
  static constexpr uint64_t kPageBytes = 2 << 20;
  /// So often a huge page's worth is read before it is moved, and before that is tried again (its address may hold other memory then).
  static constexpr uint64_t kReadings = 4;
  static constexpr uint64_t kReadingsBetween = 1024;

  /// Makes the kPageBytes that begin there one page, or leaves them alone.
  using Move = void (*)(uintptr_t address);
  static void move(uintptr_t address);

  explicit HugePages(Move move_page = &HugePages::move) : move_(move_page) {}

  /// Another process is about to read this memory of ours. Moves one page at most.
  void used(std::span<const std::byte> memory);

 private:
  /// How much has been read of a page's worth of addresses.
  struct Use {
    uintptr_t page = 0;  ///< address / kPageBytes
    uint64_t bytes = 0;
    uint64_t due_bytes = 0;
  };
  static constexpr size_t kUses = 1024;

  Move move_;
  std::vector<Use> uses_;  ///< by the last bits of `page`; none before there is a use
};

}  // namespace isthmus::memory
