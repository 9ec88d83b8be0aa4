// SPDX-License-Identifier: Apache-2.0
// Holds the processor to default floating-point behaviour while a kernel runs: round to nearest, subnormals kept, exceptions masked.
// A program built with -ffast-math, or one that asked for flushing or trapping, would otherwise get other bits than its peers, or a
// signal. Used by every kernel of every target; costs one register read where nothing has to change. Nothing here can fail.
// In an unnamed namespace on purpose: every object keeps its own copy, compiled for its own instruction set.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace isthmus::kernels {
namespace {

class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

#if defined(__SSE2__)
  /// Does nothing where not `needed`, that is, for integers.
  explicit DefaultFloatEnvironment(bool needed) : saved_(needed ? _mm_getcsr() : kDefault) {
    if (differs()) set(kDefault);
  }
  ~DefaultFloatEnvironment() {
    if (differs()) set(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80;      // all exceptions masked, nearest, no flushing
  static constexpr unsigned kStickyFlags = 0x003f;  // what already happened; no influence on results
  [[nodiscard]] bool differs() const { return (saved_ & ~kStickyFlags) != kDefault; }
  static void set(unsigned control) {
    __asm__ volatile("" ::: "memory");  // the compiler knows no dependency between arithmetic and this register; loads and stores
    _mm_setcsr(control);                // may not pass the barriers, and between them lies all arithmetic
    __asm__ volatile("" ::: "memory");
  }
  unsigned saved_;
#else
  explicit DefaultFloatEnvironment(bool) {}
#endif
};

}  // namespace
}  // namespace isthmus::kernels
