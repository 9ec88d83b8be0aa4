// SPDX-License-Identifier: Apache-2.0
// Speed of clustering: one assignment pass, Lloyd's iterations, and a whole update of a cohort, for many clients with 62 labels.
// `lloyd_iterations/1000000/2` is 20 iterations of a million clients on two threads:
//   cohort_bench --benchmark_filter=lloyd --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <vector>

#include "federated/cohort_state.h"
#include "federated/draws.h"
#include "federated/nearest.h"

namespace isthmus::federated {
namespace {

constexpr uint32_t kDims = 62, kClusters = 10, kIterations = 20;

/// Histograms drawn in float: of ten groups, six labels each, or of none, where iterations go on and on.
std::vector<float> histograms(size_t rows, bool grouped = true) {
  CounterRng random(1, 0);
  std::vector<float> values(rows * kDims);
  for (size_t row = 0; row < rows; ++row) {
    float sum = 0;
    float* to = values.data() + row * kDims;
    for (uint32_t j = 0; j < kDims; ++j)
      sum += to[j] = static_cast<float>(random.uniform()) * (!grouped || j / 6 == row % kClusters ? 1.0F : 0.02F);
    for (uint32_t j = 0; j < kDims; ++j) to[j] /= sum;
  }
  return values;
}

void assign_once(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const std::vector<float> values = histograms(rows), centres(values.begin(), values.begin() + kClusters * kDims);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        assign({.values = values, .dims = kDims}, {.values = centres, .dims = kDims}, Metric::l1, static_cast<uint32_t>(state.range(1))));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void lloyd_iterations(benchmark::State& state) {
  const std::vector<float> values = histograms(static_cast<size_t>(state.range(0)), false);
  const std::span<const float> centres = std::span(values).first(kClusters * kDims);
  uint32_t iterations = 0;
  for (auto _ : state) {
    const Clustering found = lloyd({.values = values, .dims = kDims}, {.values = centres, .dims = kDims},
                                   {.max_iterations = kIterations, .tolerance = -1, .threads = static_cast<uint32_t>(state.range(1))});
    iterations = found.iterations;
    benchmark::DoNotOptimize(found.inertia);
  }
  state.counters["iterations"] = iterations;
}

void update_with_reporters(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const std::vector<float> values = histograms(rows);
  CohortConfig config{.rep = {.kind = RepKind::label, .dims = kDims},
                      .clusters = {.metric = Metric::l1, .k_fixed = kClusters, .threads = 2}};
  CohortState cohort(config);
  uint64_t sequence = 0;
  const auto report = [&](size_t from, size_t until) {
    ++sequence;
    for (size_t i = from; i < until; ++i) {
      if (!cohort
               .report(config.rep,
                       {.client = i, .sequence = sequence, .samples = 100, .values = std::span(values).subspan(i * kDims, kDims)})
               .ok()) {
        state.SkipWithError("refused");
      }
    }
  };
  report(0, rows);
  if (!cohort.update().ok()) state.SkipWithError("no update");
  for (auto _ : state) {
    report(0, rows / 100);
    benchmark::DoNotOptimize(cohort.update().ok());
  }
}

BENCHMARK(assign_once)->ArgsProduct({{10'000, 1'000'000}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(lloyd_iterations)->ArgsProduct({{100'000, 1'000'000}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(update_with_reporters)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace isthmus::federated

BENCHMARK_MAIN();
