// SPDX-License-Identifier: Apache-2.0
// What the step machine costs beside transports and kernels (budget: 20 ns a step): calls of many tiny steps, all ranks in one
// process, next to the same kernel calls in a plain loop. Items are steps (of all ranks) and kernel calls. The budget is for the time
// of a step in steps/copy less that of kernel/copy, and of steps/reduce less kernel/reduce; steps/messages has the loopback transport in
// it. Run by hand and by ./dev perf --targets.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/engine.h"
#include "exec/launch.h"
#include "plan/builder.h"
#include "transport/local/loopback.h"

namespace isthmus::exec {
namespace {

constexpr uint32_t kCells = 512;

// One rank: every cell is copied on its own, so every step is ready at once.
void emit_copies(const plan::Shape&, plan::Builder& b) {
  b.split(kCells);
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    b.copy(b.out(cell, cell + 1), b.in(cell, cell + 1));
    b.complete(b.out(cell, cell + 1));
  }
}

// One rank: every cell of the output is its copy plus the cell before, so every reduce waits for others.
void emit_reduces(const plan::Shape&, plan::Builder& b) {
  b.split(kCells);
  const plan::Chunk work = b.scratch(0, kCells);
  b.copy(work, b.in(0, kCells));
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    const plan::Chunk mine = b.part(work, cell, cell + 1);
    b.reduce(b.out(cell, cell + 1), mine, b.in(cell, cell + 1));
  }
}

// Two ranks swap every cell in a message of its own.
void emit_messages(const plan::Shape& shape, plan::Builder& b) {
  b.split(kCells);
  const int32_t other = 1 - shape.group.position;
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    b.send(other, b.in(cell, cell + 1));
    b.recv_reduce(other, b.out(cell, cell + 1), b.in(cell, cell + 1));
    b.complete(b.out(cell, cell + 1));
  }
}

plan::Algorithm algorithm_of(void (*emit)(const plan::Shape&, plan::Builder&)) {
  return {.name = "bench",
          .collective = Collective::allreduce,
          .needs = {},
          .tunables = {},
          .steps_formula = "",
          .bytes_formula = "",
          .emit = emit};
}

/// All ranks of one communicator on one engine, with a warm program for each.
class Job {
 public:
  Job(int32_t ranks, const plan::Algorithm& algorithm)
      : engine_(Limits{}, WatchLimits{}, kernels::select_target(), pool_), loopback_(engine_), data_(static_cast<size_t>(ranks)) {
    engine_.add_transport(loopback_);
    if (!loopback_.add_peer(0, {}).ok()) return;
    const std::vector<transport::PeerId> peers(static_cast<size_t>(ranks), 0);
    const std::vector<transport::Transport*> transports(static_cast<size_t>(ranks), &loopback_);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      auto plan = plan::build(algorithm, {.collective = Collective::allreduce, .group = {.ranks = {}, .size = ranks, .position = rank}});
      if (!plan.ok()) return;
      steps_ += plan->steps.size();
      programs_.push_back(std::make_shared<const Program>(std::move(*plan)));
      endpoints_.push_back(&engine_.open(7, rank, peers, transports));
    }
    fine_ = true;
  }

  /// One call on every rank; false if it fails or hangs.
  bool call() {
    launch_.clear();
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      Launch::Item& item = launch_.add();
      item.endpoint = endpoints_[rank];
      item.call.program = programs_[rank];
      item.call.signature = {.collective = Collective::allreduce, .count = kCells};
      item.call.in = reinterpret_cast<const std::byte*>(data_[rank].in.data());
      item.call.out = reinterpret_cast<std::byte*>(data_[rank].out.data());
    }
    launch_.submit(engine_);
    for (int polls = 0; polls < 100'000 && !launch_.done(); ++polls) engine_.poll(++now_);
    return launch_.done() && launch_.status().ok();
  }

  [[nodiscard]] bool fine() const { return fine_; }
  [[nodiscard]] size_t steps() const { return steps_; }

 private:
  struct Data {
    std::array<float, kCells> in{}, out{};
  };
  memory::Pool pool_;
  Engine engine_;
  transport::Loopback loopback_;
  std::vector<Data> data_;
  std::vector<Endpoint*> endpoints_;
  std::vector<std::shared_ptr<const Program>> programs_;
  Launch launch_;
  TimeNs now_ = 0;
  size_t steps_ = 0;
  bool fine_ = false;
};

void run_steps(benchmark::State& state, int32_t ranks, void (*emit)(const plan::Shape&, plan::Builder&)) {
  Job job(ranks, algorithm_of(emit));
  if (!job.fine()) return state.SkipWithError("the plan was refused");
  for (auto _ : state) {
    if (!job.call()) return state.SkipWithError("the call failed");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(job.steps()));
}

void run_copies(benchmark::State& state) {
  const kernels::Target& target = kernels::select_target();
  std::array<float, kCells> in{}, out{};
  for (auto _ : state) {
    for (uint32_t cell = 0; cell < kCells; ++cell) target.copy(&out[cell], &in[cell], sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCells);
}

void run_reduces(benchmark::State& state) {
  const kernels::Target& target = kernels::select_target();
  const kernels::ReduceFn reduce = target.reduce[static_cast<size_t>(DataType::float32)][static_cast<size_t>(ReduceOp::sum)];
  std::array<float, kCells> a{}, b{}, out{};
  for (auto _ : state) {
    for (uint32_t cell = 0; cell < kCells; ++cell) reduce(&out[cell], &a[cell], &b[cell], 1, {});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCells);
}

}  // namespace
}  // namespace isthmus::exec

int main(int argc, char** argv) {
  using namespace isthmus::exec;
  benchmark::RegisterBenchmark("steps/copy", run_steps, 1, emit_copies);
  benchmark::RegisterBenchmark("steps/reduce", run_steps, 1, emit_reduces);
  benchmark::RegisterBenchmark("steps/messages", run_steps, 2, emit_messages);
  benchmark::RegisterBenchmark("kernel/copy", run_copies);
  benchmark::RegisterBenchmark("kernel/reduce", run_reduces);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
