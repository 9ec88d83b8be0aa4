// SPDX-License-Identifier: Apache-2.0
// One process's part of a sweep: its ranks with their buffers, streams and communicators. Set up by run_sweep(), used by the
// workers. Throws Failure when memory is short or a library call fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective.h"
#include "isthmus.h"
#include "options.h"

namespace sweep {

/// One rank of this process.
struct Rank {
  int rank = 0;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void* allocations[2] = {};
  void* registrations[2] = {};
  int32_t token = 0;  ///< what ranks exchange to line up
};

/// Bytes behind every buffer that no call may touch.
inline constexpr size_t kGuardBytes = 64;

class Job {
 public:
  Job(const Options& options, const Collective& collective, int process, int processes);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Buffers (touched) and streams of all ranks.
  void allocate();
  /// Joins local ranks [first, first + count) to the communicator that `id` names; a single process makes all its ranks at once.
  void join(const ncclUniqueId& id, int first, int count);
  /// Ends what join() and allocate() began. Not called after a failure: the process exits then.
  void leave();
  /// The call's codec, as --codec says.
  [[nodiscard]] isthmusCompression_t compression() const;
  /// Aborts every communicator, from any thread.
  void abort();

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Collective& collective() const { return collective_; }
  [[nodiscard]] int total_ranks() const { return total_ranks_; }
  [[nodiscard]] std::vector<Rank>& ranks() { return ranks_; }
  /// Bytes that one rank's buffers take together.
  [[nodiscard]] size_t bytes_per_rank() const { return 2 * buffer_bytes(); }

 private:
  [[nodiscard]] size_t buffer_bytes() const;
  void settle_codec(const Rank& rank) const;
  [[nodiscard]] void* obtain(size_t bytes) const;
  void release(void* memory) const;

  const Options& options_;
  const Collective& collective_;
  int processes_, total_ranks_;
  std::vector<Rank> ranks_;
};

}  // namespace sweep
