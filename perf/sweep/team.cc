// SPDX-License-Identifier: Apache-2.0
// Meetings of all threads of all processes (see team.h).
#include "team.h"

#include <algorithm>

namespace sweep {
namespace {

double combined(double a, double b, Combine how) {
  if (how == Combine::sum) return a + b;
  return how == Combine::min ? std::min(a, b) : std::max(a, b);
}

}  // namespace

std::vector<double> Team::gather(std::span<const double> values, Combine combine) {
  std::unique_lock lock(mutex_);
  if (arrived_ == 0) {
    pending_.assign(values.begin(), values.end());
  } else {
    for (size_t at = 0; at < values.size(); ++at) pending_[at] = combined(pending_[at], values[at], combine);
  }
  if (++arrived_ < threads_) {
    round_over_.wait(lock, [this, round = round_] { return round_ != round; });
  } else {
    try {
      result_ = oob_.gather<double>(pending_);
    } catch (const Failure& failure) {
      failure_ = failure;
    }
    arrived_ = 0;
    ++round_;
    round_over_.notify_all();
  }
  // The result stays until the next round ends, which needs every thread to have come back.
  if (failure_) throw *failure_;
  return result_;
}

double Team::reduce(double value, Combine combine) {
  const std::vector<double> values = gather(std::span<const double>(&value, 1), combine);
  double result = values.front();
  for (size_t at = 1; at < values.size(); ++at) result = combined(result, values[at], combine);
  return result;
}

}  // namespace sweep
