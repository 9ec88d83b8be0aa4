// SPDX-License-Identifier: Apache-2.0
// What a sweep found out: values handed from the workers to the table and the JSON file. Nothing here can fail.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweep {

/// Statistics of a row of iteration times, in seconds.
struct IterationStats {
  double min = 0, max = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  [[nodiscard]] double cv_percent() const { return mean > 0 ? 100 * deviation / mean : 0; }
};
/// Of at least one time. Percentiles are the smallest time that so many percent of the times do not exceed.
IterationStats statistics(std::span<const double> times);

/// One half of a row: out of place or in place.
struct Measurement {
  double time_s = 0;  ///< per operation; with -C the time spent in calls
  double algbw = 0;   ///< GB/s
  double busbw = 0;
  std::optional<double> wrong;              ///< elements; none: not verified
  double cpu_s = 0;                         ///< CPU time of all ranks per operation
  std::vector<double> iterations;           ///< seconds per iteration, the slowest rank's; empty: not timed one by one
  std::vector<std::vector<double>> slices;  ///< the same for each process on its own
};

/// A row's parameters.
struct Line {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type, op;
  int root = -1;
};

/// One rank's place.
struct RankPlace {
  int rank = 0;
  int pid = 0;
  int device = 0;  ///< number among the host's ranks
  std::string host;
  std::string slot;  ///< "0000:NN:00": NN is the NUMA node that the process started on
  std::string cpu;   ///< model name
};

/// The whole sweep's outcome.
struct Summary {
  uint64_t wrong = 0;
  double average_busbw = 0;
  std::optional<double> min_busbw;  ///< NCCL_TESTS_MIN_BW
  [[nodiscard]] bool bandwidth_ok() const { return !min_busbw || average_busbw >= 0.9 * *min_busbw; }
  [[nodiscard]] bool ok() const { return wrong == 0 && bandwidth_ok(); }
};

}  // namespace sweep
