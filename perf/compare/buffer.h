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

/// Floats that begin a page, touched.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t floats) : floats_(floats) {
    constexpr size_t kPage = 4096;
    memory_.reset(static_cast<float*>(std::aligned_alloc(kPage, (floats * sizeof(float) + kPage - 1) / kPage * kPage)));
    if (memory_ == nullptr) throw std::bad_alloc();
    std::fill(all().begin(), all().end(), 0.0F);
  }
  [[nodiscard]] float* data() const { return memory_.get(); }
  [[nodiscard]] std::span<float> all() const { return {memory_.get(), floats_}; }

 private:
  std::unique_ptr<float[], decltype(&std::free)> memory_{nullptr, std::free};
  size_t floats_ = 0;
};

}  // namespace compare
