// SPDX-License-Identifier: Apache-2.0
// What plans cost before they run: building one rank's plan of every algorithm (budget: 1 ms at 4096 ranks, 1 MiB), binding a count,
// hashing, and the proofs that the isthmus tool and ISTHMUS_CHECK_PLANS make. Run by hand and by ./dev perf.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/check.h"
#include "plan/send_recv.h"

namespace {

using isthmus::Collective;
using namespace isthmus::plan;

Shape shape_of(const Algorithm& algorithm, int32_t ranks) {
  return {.collective = algorithm.collective,
          .group = {.ranks = {}, .size = ranks, .position = ranks / 3},
          .root = isthmus::is_rooted(algorithm.collective) ? 0 : -1};
}

/// Buildings of an eighth of the ranks each, and hosts of eight ranks.
std::vector<int32_t> tree_of(int32_t ranks) {
  std::vector<int32_t> sites;
  sites.reserve(2 * static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) sites.push_back(8 * rank / ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) sites.push_back(rank / 8);
  return sites;
}

void build_plan(benchmark::State& state, const Algorithm* algorithm) {
  const auto ranks = static_cast<int32_t>(state.range(0));
  const std::vector<int32_t> sites = algorithm->needs.by_site ? tree_of(ranks) : std::vector<int32_t>();
  Shape shape = shape_of(*algorithm, ranks);
  shape.sites = sites;
  size_t bytes = 0, steps = 0;
  for (auto _ : state) {
    const auto plan = build(*algorithm, shape);
    if (!plan.ok()) return state.SkipWithError(plan.status().text().c_str());
    bytes = plan->bytes();
    steps = plan->steps.size();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
  state.counters["steps"] = static_cast<double>(steps);
}

void build_groups(benchmark::State& state) {
  std::vector<Transfer> transfers;
  for (int32_t peer = 0; peer < state.range(0); ++peer) {
    transfers.push_back({.peer = peer, .is_send = true, .bytes = 64});
    transfers.push_back({.peer = peer, .is_send = false, .bytes = 64});
  }
  Plan plan;
  Binding binding;
  for (auto _ : state) {
    if (!build_send_recv(0, static_cast<int32_t>(state.range(0)), transfers, plan, binding).ok()) return state.SkipWithError("refused");
  }
}

void bind_count(benchmark::State& state) {
  const Grid grid{.blocks = 1, .cells_per_block = static_cast<uint32_t>(state.range(0)), .align = 16};
  Binding binding;
  uint64_t count = 1 << 20;
  for (auto _ : state) {
    bind(grid, ++count, binding);
    benchmark::DoNotOptimize(binding.offsets.data());
  }
}

void prove(benchmark::State& state) {
  const Algorithm& ring = *isthmus::collectives::find(Collective::allreduce, "ring");
  Shape shape = shape_of(ring, static_cast<int32_t>(state.range(0)));
  std::vector<Plan> world;
  for (shape.group.position = 0; shape.group.position < shape.group.size; ++shape.group.position) {
    auto plan = build(ring, shape);
    if (!plan.ok()) return state.SkipWithError(plan.status().text().c_str());
    world.push_back(std::move(*plan));
  }
  for (auto _ : state) {
    if (!check_symbolic(world, 1 << 20).ok() || !check_deadlock(world, 1 << 20, Reads::in_place).ok()) return state.SkipWithError("wrong");
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const Algorithm* algorithm : isthmus::collectives::registry()) {
    const std::string name =
        std::string("build/") + std::string(isthmus::name_of(algorithm->collective)) + "/" + std::string(algorithm->name);
    auto* entry = benchmark::RegisterBenchmark(name.c_str(), build_plan, algorithm);
    for (const int32_t ranks : {8, 64, 4096}) {
      if (serves(*algorithm, ranks)) entry->Arg(ranks);
    }
  }
  benchmark::RegisterBenchmark("build/send_recv", build_groups)->Arg(8)->Arg(64)->Arg(4096);
  benchmark::RegisterBenchmark("bind", bind_count)->Arg(8)->Arg(4096);
  benchmark::RegisterBenchmark("prove/allreduce/ring", prove)->Arg(8)->Arg(64);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
