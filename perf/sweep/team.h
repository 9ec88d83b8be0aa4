// SPDX-License-Identifier: Apache-2.0
// All threads of all processes of a sweep, meeting: barriers and small reductions of numbers. Every thread makes the same calls in the
// same order; the last one of a process to arrive speaks for it out of band. Throws Failure in every thread when that fails.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "failure.h"
#include "oob.h"

namespace sweep {

enum class Combine { sum, min, max };

class Team {
 public:
  Team(Oob& oob, int threads) : oob_(oob), threads_(threads) {}

  [[nodiscard]] int processes() const { return oob_.size(); }
  [[nodiscard]] int members() const { return oob_.size() * threads_; }
  /// Combines the threads' values within each process and returns all processes', one after the other.
  std::vector<double> gather(std::span<const double> values, Combine combine);
  /// Combines the value over all threads of all processes.
  double reduce(double value, Combine combine);
  void barrier() { reduce(0, Combine::sum); }

 private:
  Oob& oob_;
  const int threads_;
  std::mutex mutex_;
  std::condition_variable round_over_;
  int arrived_ = 0;
  uint64_t round_ = 0;
  std::vector<double> pending_, result_;
  std::optional<Failure> failure_;
};

}  // namespace sweep
