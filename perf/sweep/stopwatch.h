// SPDX-License-Identifier: Apache-2.0
// Time and CPU time since some moment, and bandwidth. Used by the workers; cannot fail.
#pragma once

#include <time.h>

#include <cstddef>

namespace sweep {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return now(CLOCK_MONOTONIC) - began_; }
  /// That this process has used, its library's threads included.
  [[nodiscard]] double cpu_seconds() const { return now(CLOCK_PROCESS_CPUTIME_ID) - cpu_began_; }

 private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  double cpu_began_ = now(CLOCK_PROCESS_CPUTIME_ID), began_ = now(CLOCK_MONOTONIC);
};

/// GB/s.
inline double algbw(size_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0; }

}  // namespace sweep
