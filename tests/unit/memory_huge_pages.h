// SPDX-License-Identifier: Apache-2.0
// Memory whose huge pages can be counted, for the tests of HugePages and of Shm, which uses it. Nothing here fails.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "memory/huge_pages.h"

namespace isthmus::memory::testing {

inline constexpr uint64_t kPage = HugePages::kPageBytes;

/// Anonymous memory of the process, and how much of it is in huge pages.
class Memory {
 public:
  explicit Memory(int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : memory_(static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, -1, 0))) {}
  ~Memory() { munmap(memory_, kBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Where a huge page could be, with as much again around it.
  [[nodiscard]] std::byte* page() const {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory_) + kPage) / kPage * kPage);
  }
  [[nodiscard]] uint64_t huge_kib() const {
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    uint64_t begin = 0, end = 0, kib = 0;
    while (std::getline(maps, line)) {
      uint64_t low = 0, high = 0;
      char dash = 0;
      std::istringstream words(line);
      if (words >> std::hex >> low >> dash >> high && dash == '-') begin = low, end = high;
      const bool here = begin < reinterpret_cast<uintptr_t>(memory_) + kBytes && end > reinterpret_cast<uintptr_t>(memory_);
      if (here && line.starts_with("AnonHugePages:")) kib += std::stoull(line.substr(14));
    }
    return kib;
  }

 private:
  static constexpr size_t kBytes = 4 * kPage;
  std::byte* memory_;
};

/// The system makes huge pages, but only where a program asks for them.
inline bool system_moves() {
  const Memory trial;
  std::memset(trial.page(), 1, kPage);
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[madvise]") != std::string::npos && madvise(trial.page(), kPage, 25) == 0;
}

}  // namespace isthmus::memory::testing
