// SPDX-License-Identifier: Apache-2.0
// Speed of the reduce kernels: every available target, by type and bytes per operand, beside a plain loop and memcpy of the
// same bytes. GB/s count the bytes of one operand, as a collective counts its payload. Read ratios within one run, never across runs:
//   kernels_bench --benchmark_filter='float/' --benchmark_repetitions=7 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/reduce.h"

namespace isthmus::kernels {
namespace {

constexpr int64_t kSizes[] = {8, 256, 4 << 10, 64 << 10, 1 << 20, 64 << 20};

/// Memory that starts a page, touched.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : memory_(std::aligned_alloc(4096, (static_cast<size_t>(bytes) + 4095) / 4096 * 4096), std::free) {
    std::memset(memory_.get(), 1, static_cast<size_t>(bytes));
  }
  [[nodiscard]] void* data() const { return memory_.get(); }

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

enum class Where { in_place, out_of_place };

void run_reduce(benchmark::State& state, ReduceFn function, DataType type, ReduceMaps maps, Where where) {
  const Buffer a(state.range(0)), b(state.range(0)), out(state.range(0));
  void* dst = where == Where::in_place ? a.data() : out.data();
  const size_t count = static_cast<size_t>(state.range(0)) / size_of(type);
  for (auto _ : state) {
    function(dst, a.data(), b.data(), count, maps);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void plain_loop(void* dst, const void* a, const void* b, size_t count, const ReduceMaps&) {
  auto* to = static_cast<float*>(dst);
  const auto *x = static_cast<const float*>(a), *y = static_cast<const float*>(b);
  for (size_t i = 0; i < count; ++i) to[i] = x[i] + y[i];
}

void run_copy(benchmark::State& state, void (*copy)(void*, const void*, size_t)) {
  const Buffer from(state.range(0)), to(state.range(0));
  for (auto _ : state) {
    copy(to.data(), from.data(), static_cast<size_t>(state.range(0)));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void register_one(const std::string& name, DataType type, ReduceFn function, const ReduceMaps& maps) {
  for (const Where where : {Where::in_place, Where::out_of_place}) {
    const std::string full = fmt::format("{}/{}", name, where == Where::in_place ? "in_place" : "out_of_place");
    auto* bench =
        benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) { run_reduce(state, function, type, maps, where); });
    for (const int64_t bytes : kSizes) bench->Arg(bytes);
  }
}

void register_target(const Target& target) {
  for (int row = 0; row < kDataTypes; ++row) {
    const auto type = static_cast<DataType>(row);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
      register_one(fmt::format("{}/{}/{}", name_of(op), name_of(type), target.name), type, target.reduce[row][static_cast<size_t>(op)], {});
    }
    register_one(fmt::format("avg/{}/{}", name_of(type), target.name), type, target.reduce[row][0], {.divisor = 3});
    register_one(fmt::format("premulsum/{}/{}", name_of(type), target.name), type, target.reduce[row][0], {.map_in = true});
  }
  auto* copy = benchmark::RegisterBenchmark(fmt::format("copy/{}", target.name).c_str(),
                                            [&target](benchmark::State& state) { run_copy(state, target.copy); });
  for (const int64_t bytes : kSizes) copy->Arg(bytes);
}

}  // namespace
}  // namespace isthmus::kernels

int main(int argc, char** argv) {
  using isthmus::kernels::available_targets;
  for (const auto* target : available_targets()) isthmus::kernels::register_target(*target);
  isthmus::kernels::register_one("sum/float/plain_loop", isthmus::DataType::float32, isthmus::kernels::plain_loop, {});
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
