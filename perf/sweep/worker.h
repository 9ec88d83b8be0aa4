// SPDX-License-Identifier: Apache-2.0
// One thread of a sweep: drives its ranks through every type, operator, root and size, times them as nccl-tests does (out of
// place, then in place; each iteration at another offset of the buffers) and verifies the data. All workers of all processes
// walk the same path and meet in Team. Throws Failure.
#pragma once

#include <map>
#include <span>
#include <tuple>

#include "accuracy.h"
#include "generator.h"
#include "job.h"
#include "report.h"
#include "team.h"
#include "watchdog.h"

namespace sweep {

/// What one row measures. Sizes are those of one rank's call.
struct Case {
  ncclDataType_t type = ncclFloat32;
  Op op = Op::sum;
  int root = -1;
  size_t count = 0;  ///< of the call
  size_t send_bytes = 0, recv_bytes = 0;
  [[nodiscard]] size_t bytes() const { return send_bytes > recv_bytes ? send_bytes : recv_bytes; }
};

/// What a worker saw, for the footer; alike in all workers.
struct Tally {
  double wrong = 0;
  double busbw_sum = 0;
  int measurements = 0;
  std::vector<CallCount> calls;
  std::vector<std::string> faults;
};

/// Whether calls go through --codec's codec; without one all are exact.
enum class Way { exact, coded };

class Worker {
 public:
  Worker(Job& job, Team& team, Report& report, Watchdog& watchdog, int thread);

  /// The whole sweep, as often as -N says.
  void run();
  [[nodiscard]] Tally tally() const;

 private:
  [[nodiscard]] Case make_case(ncclDataType_t type, Op op, int root, size_t bytes) const;
  /// What may hang for want of another rank runs under the limit of -T.
  template <typename Body>
  void within_limit(Body&& body) {
    if (thread_ == 0) watchdog_.arm();
    body();
    if (thread_ == 0) watchdog_.disarm();
  }
  void run_cycle();
  void sweep(ncclDataType_t type, Op op, int root);
  void fill(ncclDataType_t type, Op op);
  void warm_up(ncclDataType_t type, Op op, int root);
  void report_half(const Case& c, bool in_place);
  Measurement measure(const Case& c, bool in_place);
  void time(const Case& c, bool in_place, Measurement& measurement);
  [[nodiscard]] double busbw(double algbw) const { return algbw * collective_.busbw_factor(job_.total_ranks()); }
  double average(double seconds);
  void collect_iterations(std::span<const double> times, Measurement& measurement);
  double verify(const Case& c, bool in_place);

  void line_up();
  void meet();
  [[nodiscard]] size_t offset_bytes(const Case& c, int iteration, int aggregated) const;
  void iterate(const Case& c, bool in_place, int iteration, Way way);
  void start(const Case& c, bool in_place, size_t offset_bytes, Way way);
  void start_rank(Rank& rank, const Case& c, bool in_place, size_t offset_bytes, Way way);
  void complete();
  [[nodiscard]] bool completes_each() const { return options_.null_stream || options_.blocking != 0 || options_.per_iteration; }
  [[nodiscard]] Call call_of(Rank& rank, const Case& c, bool in_place, size_t offset_bytes) const;
  void prepare(const Case& c, bool in_place, uint64_t seed);
  double count_errors(const Case& c, bool in_place, uint64_t seed);
  double count_touched(const Case& c, bool in_place, uint64_t seed);
  void spoil(const Case& c, bool in_place);
  [[nodiscard]] Recipe recipe_of(const Case& c, uint64_t seed) const;

  // With a codec (worker_coded.cc).
  struct Lap {
    double seconds = 0, cpu_s = 0;
  };
  void time_in_turn(const Case& c, bool in_place, Measurement& measurement);
  Lap lap(const Case& c, bool in_place, int iteration, Way way);
  void conclude_exact(const Case& c, std::span<const double> seconds, Coded& coded);
  void restore(const Case& c, int iteration);
  void ask(Coded& coded);
  double verify_coded(const Case& c, bool in_place, Coded& coded);
  Outcome examine(const Case& c, bool in_place, uint64_t seed, const Coded& coded);
  void report_faults(const Case& c, bool in_place, const std::vector<std::string>& found);

  Job& job_;
  Team& team_;
  Report& report_;
  Watchdog& watchdog_;
  const Options& options_;
  const Collective& collective_;
  const int thread_;
  std::span<Rank> ranks_;
  bool spoil_pending_;  ///< --inject-wrong, until it is done
  Way asked_;           ///< what calls are measured
  isthmusCompression_t compression_;
  std::map<std::tuple<ncclDataType_t, uint64_t, Way>, uint64_t> calls_;
  Tally tally_;
  uint64_t seed_ = 0;
};

}  // namespace sweep
