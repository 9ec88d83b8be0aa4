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

/// Floats that begin a page, touched, and how their memory is given back.
class Buffer {
 public:
  using Release = void (*)(float*);

  Buffer() = default;
  /// Allocators need not align to pages, so `bytes_for` the floats are asked of them. Ordinary memory:
  explicit Buffer(size_t floats)
      : Buffer(static_cast<float*>(std::malloc(bytes_for(floats))), floats, [](float* memory) { std::free(memory); }) {}
  /// `memory` of bytes_for(floats) that somebody else gave; null: there was none.
  Buffer(float* memory, size_t floats, Release release) : memory_(memory, release) {
    if (memory_ == nullptr) throw std::bad_alloc();
    void* begin = memory;
    size_t space = bytes_for(floats);
    floats_ = {static_cast<float*>(std::align(kPageBytes, floats * sizeof(float), begin, space)), floats};
    std::fill(floats_.begin(), floats_.end(), 0.0F);
  }
  [[nodiscard]] static size_t bytes_for(size_t floats) { return floats * sizeof(float) + kPageBytes; }
  [[nodiscard]] float* data() const { return floats_.data(); }
  [[nodiscard]] std::span<float> all() const { return floats_; }

 private:
  static constexpr size_t kPageBytes = 4096;

  std::unique_ptr<float[], Release> memory_{nullptr, [](float*) {}};
  std::span<float> floats_;
};

}  // namespace compare
