// SPDX-License-Identifier: Apache-2.0
// Speed of the codecs on one thread over 64 MiB of float32, in elements, beside a copy of the same elements; every target; thc for 2, 4, 8
// and 16 ranks, which have g=127, 63, 31 and 15. Results are stored past the caches, as the copy does. Read the counters
// "items_per_second" as ratios within one run:
//   codec_bench --benchmark_filter='avx2|copy' --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reduce.h"

namespace isthmus::kernels {
namespace {

constexpr size_t kElements = 16 << 20;
constexpr size_t kBite = 64 << 10;

struct Work {
  alignas(64) float data[codec::kMaxGroup];
};

std::unique_ptr<void, decltype(&std::free)> memory(size_t bytes) {
  return {std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), std::free};
}

/// Everything that the benchmarks work on, made once.
struct World {
  decltype(memory(1)) in = memory(kElements * 4), out = memory(kElements * 4), encoded = memory(kElements * 2), sum = memory(kElements);
  std::unique_ptr<const codec::Thc> thc;

  explicit World(uint32_t ranks) : thc(codec::make_thc({}, ranks).value()) {
    auto* values = static_cast<float*>(in.get());
    uint32_t state = 1;
    for (size_t i = 0; i < kElements; ++i) {
      state = state * 1664525U + 1013904223U;
      values[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
    }
    std::memset(out.get(), 1, kElements * 4);
    std::memset(encoded.get(), 1, kElements * 2);
    std::memset(sum.get(), 1, kElements);
  }
  [[nodiscard]] CodecKey key() const { return {.seed = 7, .op = 3, .rank = 1, .ranks = thc->ranks}; }
  /// As the engine goes through a cell: results that went past the caches are settled every kBite elements.
  template <class Function>
  void for_groups(const Function& function) const {
    const uint32_t group = thc->config.group;
    for (size_t first = 0; first < kElements; first += group) {
      function(first, ThcPlace{.position = first, .elements = group});
      if ((first + group) % kBite == 0) settle_stores();
    }
  }
  [[nodiscard]] CodecInput input(size_t first) const {
    const uint32_t group = thc->config.group;
    const float* from = static_cast<const float*>(in.get()) + first;
    return {.data = from, .type = DataType::float32, .count = group, .next = first + group < kElements ? from + group : nullptr};
  }
};

void measure(const World& world, const Target& target, Work& work) {
  world.for_groups([&](size_t first, const ThcPlace& place) {
    benchmark::DoNotOptimize(thc_measure(target, world.input(first), place.elements, work.data));
  });
}

/// Measures too: an encoder that has not seen the elements before.
void encode(const World& world, const Target& target, Work& work) {
  world.for_groups([&](size_t first, const ThcPlace& place) {
    const float own = thc_measure(target, world.input(first), place.elements, work.data);
    thc_encode(target, static_cast<uint8_t*>(world.encoded.get()) + first / 2, 1, world.input(first), nullptr, *world.thc, world.key(),
               place, {.own = own, .joined = 1.02F * own}, work.data);
  });
}

void accumulate(const World& world, const Target& target, Work&) {
  auto* sum = static_cast<uint8_t*>(world.sum.get());
  target.thc.accumulate(sum, world.thc->ranks, sum, world.thc->ranks, static_cast<const uint8_t*>(world.encoded.get()), 1,
                        kElements / codec::kUnitElements, *world.thc);
}

void decode(const World& world, const Target& target, Work& work) {
  world.for_groups([&](size_t first, const ThcPlace& place) {
    const CodecOutput out = {
        .data = static_cast<float*>(world.out.get()) + first, .type = DataType::float32, .count = place.elements, .past_caches = true};
    thc_decode(target, out, static_cast<const uint8_t*>(world.sum.get()) + first, world.thc->ranks, world.thc->ranks, 1, *world.thc,
               world.key(), place, 0.5F, work.data);
  });
}

void both(const World& world, const Target& target, Work& work) {
  encode(world, target, work);
  decode(world, target, work);
}

/// The codecs that rotate nothing, piece by piece.
void encode_pieces(const World& world, const Target& target, Work& work, const codec::Codec& codec) {
  auto* encoded = static_cast<uint8_t*>(world.encoded.get());
  for (size_t first = 0; first < kElements; first += codec::kPieceElements) {
    const CodecInput in = {
        .data = static_cast<const float*>(world.in.get()) + first, .type = DataType::float32, .count = codec::kPieceElements};
    baseline_encode(target, codec, encoded + codec.encoded_bytes(codec, first, 1), in, nullptr, world.key(), first, work.data);
  }
}

void decode_pieces(const World& world, const Target& target, Work& work, const codec::Codec& codec) {
  const auto* encoded = static_cast<const uint8_t*>(world.encoded.get());
  for (size_t first = 0; first < kElements; first += codec::kPieceElements) {
    const CodecOutput out = {.data = static_cast<float*>(world.out.get()) + first,
                             .type = DataType::float32,
                             .count = codec::kPieceElements,
                             .past_caches = true};
    baseline_decode(target, codec, out, encoded + codec.encoded_bytes(codec, first, 1), work.data);
    if ((first + codec::kPieceElements) % kBite == 0) settle_stores();
  }
}

void both_pieces(const World& world, const Target& target, Work& work, const codec::Codec& codec) {
  encode_pieces(world, target, work, codec);
  decode_pieces(world, target, work, codec);
}

void copy(const World& world, const Target& target, Work&) { target.copy(world.out.get(), world.in.get(), kElements * 4); }

/// function(world, target, work, more...)
template <class Function, class... More>
void add(const std::string& name, Function function, const World& world, const Target& target, const More*... more) {
  const auto run = [=, &world, &target](benchmark::State& state) {
    Work work;
    for (auto _ : state) {
      function(world, target, work, *more...);
      benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kElements));
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace isthmus::kernels

int main(int argc, char** argv) {
  using namespace isthmus::kernels;
  std::vector<std::unique_ptr<World>> worlds;
  for (const uint32_t ranks : {2U, 4U, 8U, 16U}) worlds.push_back(std::make_unique<World>(ranks));
  add("copy", copy, *worlds[0], select_target());
  for (const Target* target : available_targets()) {
    for (const auto& world : worlds) {
      const std::string configuration = fmt::format("g={}/{}", world->thc->config.granularity, target->name);
      add("measure/" + configuration, measure, *world, *target);
      add("encode/" + configuration, encode, *world, *target);
      add("accumulate/" + configuration, accumulate, *world, *target);
      add("decode/" + configuration, decode, *world, *target);
      add("encode_decode/" + configuration, both, *world, *target);
    }
    for (const isthmus::codec::Codec* codec : isthmus::codec::registry()) {
      add(fmt::format("encode/{}/{}", codec->name, target->name), encode_pieces, *worlds[2], *target, codec);
      add(fmt::format("decode/{}/{}", codec->name, target->name), decode_pieces, *worlds[2], *target, codec);
      add(fmt::format("encode_decode/{}/{}", codec->name, target->name), both_pieces, *worlds[2], *target, codec);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
