// SPDX-License-Identifier: Apache-2.0
// Statistics of iteration times (see results.h).
#include "results.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sweep {

IterationStats statistics(std::span<const double> times) {
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const auto percentile = [&](size_t percent) { return sorted[std::min(sorted.size() - 1, (sorted.size() * percent + 99) / 100 - 1)]; };
  const auto n = static_cast<double>(sorted.size());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (double time : sorted) squares += (time - mean) * (time - mean);
  return {.min = sorted.front(),
          .max = sorted.back(),
          .mean = mean,
          .p50 = percentile(50),
          .p95 = percentile(95),
          .p99 = percentile(99),
          .deviation = std::sqrt(squares / n)};
}

}  // namespace sweep
