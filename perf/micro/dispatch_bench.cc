// SPDX-License-Identifier: Apache-2.0
// The way of a call from the C API to its first step and back (budget: 100 ns): a communicator of one rank, where there is nothing to
// move. `one_rank/in_place` has no work at all; `one_rank/out_of_place` copies one element; `stream` is the enqueueing of a call that
// a stream carries out; `ranks/2` is a whole allreduce of one element between two ranks of the process. Knows the library by its public
// headers, as programs do. Run by hand and by ./dev perf --targets.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "isthmus.h"
#include "nccl.h"

namespace {

/// Ranks of one communicator in this process.
class Ranks {
 public:
  explicit Ranks(int count) : comms_(static_cast<size_t>(count)) { fine_ = ncclCommInitAll(comms_.data(), count, nullptr) == ncclSuccess; }
  ~Ranks() {
    static_cast<void>(ncclGroupStart());
    for (ncclComm_t comm : comms_) static_cast<void>(ncclCommDestroy(comm));
    static_cast<void>(ncclGroupEnd());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  [[nodiscard]] bool fine() const { return fine_; }
  [[nodiscard]] const std::vector<ncclComm_t>& comms() const { return comms_; }

 private:
  std::vector<ncclComm_t> comms_;
  bool fine_ = false;
};

void one_rank(benchmark::State& state, bool in_place) {
  const Ranks ranks(1);
  float in = 1, out = 0;
  if (!ranks.fine()) return state.SkipWithError(ncclGetLastError(nullptr));
  for (auto _ : state) {
    if (ncclAllReduce(&in, in_place ? &in : &out, 1, ncclFloat32, ncclSum, ranks.comms()[0], nullptr) != ncclSuccess) {
      return state.SkipWithError(ncclGetLastError(nullptr));
    }
  }
}

void stream(benchmark::State& state) {
  constexpr int kCallsAtOnce = 64;
  const Ranks ranks(1);
  cudaStream_t queue = nullptr;
  float value = 1;
  if (!ranks.fine() || isthmusStreamCreate(&queue) != ncclSuccess) return state.SkipWithError(ncclGetLastError(nullptr));
  while (state.KeepRunningBatch(kCallsAtOnce)) {
    for (int call = 0; call < kCallsAtOnce; ++call) {
      static_cast<void>(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, ranks.comms()[0], queue));
    }
    state.PauseTiming();
    const bool fine = isthmusStreamSynchronize(queue) == ncclSuccess;
    state.ResumeTiming();
    if (!fine) {
      state.SkipWithError(ncclGetLastError(nullptr));
      break;
    }
  }
  static_cast<void>(isthmusStreamDestroy(queue));
}

void two_ranks(benchmark::State& state) {
  const Ranks ranks(2);
  std::array<float, 2> in = {1, 2}, out{};
  if (!ranks.fine()) return state.SkipWithError(ncclGetLastError(nullptr));
  for (auto _ : state) {
    static_cast<void>(ncclGroupStart());
    for (size_t rank = 0; rank < 2; ++rank) {
      static_cast<void>(ncclAllReduce(&in[rank], &out[rank], 1, ncclFloat32, ncclSum, ranks.comms()[rank], nullptr));
    }
    if (ncclGroupEnd() != ncclSuccess) return state.SkipWithError(ncclGetLastError(nullptr));
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("dispatch/one_rank/in_place", one_rank, true);
  benchmark::RegisterBenchmark("dispatch/one_rank/out_of_place", one_rank, false);
  benchmark::RegisterBenchmark("dispatch/stream", stream);
  benchmark::RegisterBenchmark("dispatch/ranks/2", two_ranks);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
