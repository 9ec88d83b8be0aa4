// SPDX-License-Identifier: Apache-2.0
// A first-in first-out queue that stops allocating once it has been as long as it gets: a ring that doubles when full and never
// shrinks. Used where queues are filled and drained on the fast path (transport/). Only growth can fail, as any allocation can.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace isthmus {

template <typename T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t size() const { return size_; }

  void push(T value) {
    if (size_ == slots_.size()) grow();
    slots_[(first_ + size_++) & (slots_.size() - 1)] = std::move(value);
  }

  /// The oldest element; invalidated by push().
  [[nodiscard]] T& front() {
    assert(!empty());
    return slots_[first_];
  }

  /// The i-th oldest, from 0.
  [[nodiscard]] T& at(size_t i) {
    assert(i < size_);
    return slots_[(first_ + i) & (slots_.size() - 1)];
  }
  [[nodiscard]] const T& at(size_t i) const { return const_cast<Fifo&>(*this).at(i); }

  T pop() {
    T value = std::move(front());
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
    return value;
  }

  void clear() {
    while (!empty()) (void)pop();
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move(slots_[(first_ + i) & (slots_.size() - 1)]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // a power of two of them
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace isthmus
