// SPDX-License-Identifier: Apache-2.0
// The record of owned descriptors: one bit each. See fd.h. Descriptors beyond the record are owned all the same, but not known here.
#include "base/fd.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace isthmus::owned_descriptors {
namespace {

constexpr int kMost = 1 << 16;
constexpr int kWordBits = 64;
std::array<std::atomic<uint64_t>, kMost / kWordBits> words;

}  // namespace

void add(int fd) {
  if (fd < kMost) words[static_cast<size_t>(fd / kWordBits)].fetch_or(uint64_t{1} << (fd % kWordBits), std::memory_order_relaxed);
}

void remove(int fd) {
  if (fd < kMost) words[static_cast<size_t>(fd / kWordBits)].fetch_and(~(uint64_t{1} << (fd % kWordBits)), std::memory_order_relaxed);
}

void close_all() {
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t owned = words[i].exchange(0, std::memory_order_relaxed);
    for (int bit = 0; bit < kWordBits && owned >> bit != 0; ++bit) {
      if ((owned >> bit & 1) != 0) ::close(static_cast<int>(i) * kWordBits + bit);
    }
  }
}

}  // namespace isthmus::owned_descriptors
