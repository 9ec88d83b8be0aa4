// SPDX-License-Identifier: Apache-2.0
// What the comparison times, once for every library: the same buffers, warm-up, iterations and statistic over a small interface
// that compare_isthmus (the NCCL API) and compare_openmpi, compare_mpich (MPI) put their calls behind. Started by compare.py through
// each library's own launcher; process 0 prints one line of JSON per item. Throws std::runtime_error where a library fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "buffer.h"

namespace compare {

/// MPI has two calls for equal parts of a reduce-scatter; both are tried.
enum class Collective { allreduce, reduce_scatter, reduce_scatter_counts, allgather };

/// One rank of this process with its buffers, each of the largest item's bytes.
struct Place {
  int rank = 0;
  Buffer send, recv;
};

/// A library under test, as this process sees it.
class Library {
 public:
  virtual ~Library() = default;
  [[nodiscard]] virtual int ranks() const = 0;
  /// This process's ranks.
  [[nodiscard]] std::span<Place> places() { return places_; }
  /// Memory from the library's own allocator: what it makes the most of.
  [[nodiscard]] virtual Buffer allocate(size_t floats) = 0;
  /// float32 sums where it reduces, on every local rank, from send to recv; returns when all are done. `count` is NCCL's.
  virtual void run(Collective collective, size_t count) = 0;
  /// Every value becomes its largest over all processes.
  virtual void maximum(std::span<double> values) = 0;

 protected:
  std::vector<Place> places_;
};

/// Parses the command line, measures, prints. Returns the exit code: 0, 1 (a call failed, wrong results), 2 (bad command line).
int run_probe(Library& library, int argc, const char* const* argv);

/// Ranks per process as the command line has them (-g N), before there is a library; 1 without.
int ranks_per_process(int argc, const char* const* argv);

}  // namespace compare
