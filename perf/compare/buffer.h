// SPDX-License-Identifier: Apache-2.0
// The memory that the comparison's programs work on, alike for every library. Throws std::bad_alloc without memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace compare {

/// Floats that begin a page, touched, and how they are given back.
class Buffer {
 public:
  using Release = void (*)(float*);

  Buffer() = default;
  /// Ordinary memory.
  explicit Buffer(size_t floats) : Buffer(page_aligned(floats), floats, [](float* memory) { std::free(memory); }) {}
  /// Memory that somebody else gave; null: there was none.
  Buffer(float* memory, size_t floats, Release release) : memory_(memory, release), floats_(floats) {
    if (memory_ == nullptr) throw std::bad_alloc();
    std::fill(all().begin(), all().end(), 0.0F);
  }
  [[nodiscard]] float* data() const { return memory_.get(); }
  [[nodiscard]] std::span<float> all() const { return {memory_.get(), floats_}; }

 private:
  static float* page_aligned(size_t floats) {
    constexpr size_t kPage = 4096;
    return static_cast<float*>(std::aligned_alloc(kPage, (floats * sizeof(float) + kPage - 1) / kPage * kPage));
  }

  std::unique_ptr<float[], Release> memory_{nullptr, [](float*) {}};
  size_t floats_ = 0;
};

}  // namespace compare
