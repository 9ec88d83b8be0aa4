// SPDX-License-Identifier: Apache-2.0
// Counting uses, and the system's part. See huge_pages.h.
#include "memory/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace isthmus::memory {
namespace {

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // of Linux 6.1; older ones refuse it
#endif

bool switched_off() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return !std::getline(file, line) || line.find("[never]") != std::string::npos;
}

/// All of it is there, and is the process's own rather than a file's or shared.
bool is_private_and_present(uintptr_t address) {
  constexpr uint64_t kPresent = uint64_t{1} << 63, kOfFile = uint64_t{1} << 61;  // Documentation/admin-guide/mm/pagemap.rst
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Fd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::vector<uint64_t> entries(HugePages::kPageBytes / page_bytes);
  const size_t bytes = entries.size() * sizeof(uint64_t);
  const auto place = static_cast<off_t>(address / page_bytes * sizeof(uint64_t));
  if (!pagemap.valid() || pread(pagemap.get(), entries.data(), bytes, place) != static_cast<ssize_t>(bytes)) return false;
  return std::all_of(entries.begin(), entries.end(), [](uint64_t entry) { return (entry & (kPresent | kOfFile)) == kPresent; });
}

}  // namespace

void HugePages::move(uintptr_t address) {
  static const bool off = switched_off();
  if (off || !is_private_and_present(address)) return;
  // Advice only: where the system finds no room, or the pages are pinned or locked to their size, all stays as it was.
  madvise(reinterpret_cast<void*>(address), kPageBytes, kCollapse);  // NOLINT(performance-no-int-to-ptr)
}

void HugePages::used(std::span<const std::byte> memory) {
  if (memory.empty()) return;
  if (uses_.empty()) uses_.resize(kUses);
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t end = begin + memory.size();
  bool moved = false;
  for (uintptr_t page = begin / kPageBytes; page <= (end - 1) / kPageBytes; ++page) {
    Use& use = uses_[page % kUses];
    if (use.page != page) use = {.page = page, .bytes = 0, .due_bytes = kReadings * kPageBytes};
    use.bytes += std::min(end, (page + 1) * kPageBytes) - std::max(begin, page * kPageBytes);
    if (moved || use.bytes < use.due_bytes) continue;
    moved = true;
    use.due_bytes = use.bytes + kReadingsBetween * kPageBytes;
    move_(page * kPageBytes);
  }
}

}  // namespace isthmus::memory
