// SPDX-License-Identifier: Apache-2.0
// What a sweep found out: values handed from the workers to the table and the JSON file. Nothing here can fail.
#pragma once

#include <cmath>
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

/// What else there is to say of calls through a codec.
struct Coded {
  std::string codec, algorithm;        ///< as the library names them; the algorithm "": it went exactly
  double predicted = NAN;              ///< nmse that the library expects; NaN: it does not say
  std::optional<double> wire_bytes;    ///< sent by a rank in a call, without headers, the most of any rank; none: it went exactly
  std::optional<double> nmse;          ///< squared error over squared exact result; none: not verified
  double nmse_bound = HUGE_VAL;        ///< from here on it is wrong
  std::optional<double> exact_time_s;  ///< the exact call's, measured in turn; none: it was not
  double exact_algbw = 0;              ///< GB/s
  double exact_busbw = 0;              ///< GB/s
  std::vector<double> exact_seconds;   ///< per iteration, the slowest rank's
};

/// One half of a row: out of place or in place.
struct Measurement {
  double time_s = 0;  ///< per operation; with -C the time spent in calls
  double algbw = 0;   ///< GB/s
  double busbw = 0;
  std::optional<double> wrong;              ///< elements; none: not verified
  double cpu_s = 0;                         ///< CPU time of all ranks per operation
  std::vector<double> iterations;           ///< seconds per iteration, the slowest rank's; empty: not timed one by one
  std::vector<std::vector<double>> slices;  ///< the same for each process on its own
  std::optional<Coded> coded;               ///< with a codec: everything else here is of calls through it
  /// The exact call's time over the codec's.
  [[nodiscard]] double speedup() const { return time_s > 0 ? coded->exact_time_s.value_or(0) / time_s : 0; }
};

/// Calls that every rank has made on equal buffers, timed or not.
struct CallCount {
  std::string type;
  uint64_t bytes = 0;  ///< of the larger buffer
  bool coded = false;
  uint64_t calls = 0;
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
  std::vector<CallCount> calls;     ///< all that were made
  std::vector<std::string> faults;  ///< of results that came through a codec, and which
  [[nodiscard]] bool bandwidth_ok() const { return !min_busbw || average_busbw >= 0.9 * *min_busbw; }
  [[nodiscard]] bool ok() const { return wrong == 0 && bandwidth_ok(); }
};

}  // namespace sweep
