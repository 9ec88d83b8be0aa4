// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's device code, run on the CPU: a thread block is a loop over its threads, in an order that changes with every
// phase, so a thread that relies on another of the same phase is found out; or threads and a barrier, which the thread sanitizer
// watches. Everything equals the scalar kernels bit for bit.
#include "cuda/thc_device.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "cuda/thc_sum.h"
#include "thc_cases.h"

namespace isthmus::cuda {
namespace {

/// The order of a phase's threads is a stride through them.
struct LoopBlock {
  uint32_t threads;
  mutable CounterRng order;

  template <class Phase>
  void each(const Phase& phase) const {
    const auto start = static_cast<uint32_t>(order.below(threads));
    const uint32_t stride = 1 + 2 * static_cast<uint32_t>(order.below(threads / 2));  // odd, and there are 2^k threads
    for (uint32_t i = 0; i < threads; ++i) phase((start + i * stride) % threads);
  }
};

class Loops {
 public:
  explicit Loops(uint32_t threads) : block_{.threads = threads, .order = CounterRng(threads, 0)} {}

  template <class Function>
  void run(const Function& function) const {
    function(block_);
  }

 private:
  LoopBlock block_;
};

/// As on a device: every thread runs the whole function, and waits for the others after each phase.
struct ThreadBlock {
  uint32_t threads, thread;
  pthread_barrier_t* barrier;

  template <class Phase>
  void each(const Phase& phase) const {
    phase(thread);
    pthread_barrier_wait(barrier);
  }
};

class Threads {
 public:
  explicit Threads(uint32_t threads) : threads_(threads) {}

  template <class Function>
  void run(const Function& function) const {
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, threads_);
    std::vector<std::thread> all;
    for (uint32_t thread = 0; thread < threads_; ++thread) {
      all.emplace_back([&, thread] { function(ThreadBlock{.threads = threads_, .thread = thread, .barrier = &barrier}); });
    }
    for (std::thread& thread : all) thread.join();
    pthread_barrier_destroy(&barrier);
  }

 private:
  uint32_t threads_;
};

/// thc_kernels.cu's launches, one block after the other. Shared memory is full of NaN before each.
template <class Blocks>
class HostDevice final : public ThcDevice {
 public:
  explicit HostDevice(uint32_t threads) : blocks_(threads) {}

  Status measure(std::vector<float>& scales, const ThcData& in, const std::vector<float>* residual, const codec::Thc& thc,
                 const ThcCell& cell) override {
    const ThcMeasureTask task = {.elements = cell.elements,
                                 .in = {in.data(), in.type},
                                 .residual = residual == nullptr ? nullptr : residual->data(),
                                 .scales = scales.data()};
    for_groups(thc, cell, 0, [&](const auto& block, const ThcTables& tables, float*, uint64_t index) {
      measure_group(block, tables, shared_, task, index);
    });
    return {};
  }

  Status encode(Bytes& to, uint32_t room, const ThcData& in, std::vector<float>* residual, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    float* lost = residual == nullptr ? nullptr : residual->data();
    const ThcEncodeTask task = {.elements = cell.elements,
                                .position = cell.position,
                                .key = key,
                                .in = {in.data(), in.type},
                                .residual = lost,
                                .scales = scales.data(),
                                .to = {.words = reinterpret_cast<uint32_t*>(to.data()), .width = thc.width(room), .indices = room == 1},
                                .lost = lost};
    for_groups(thc, cell, 0, [&](const auto& block, const ThcTables& tables, float* data, uint64_t index) {
      encode_group(block, tables, shared_, data, task, index);
    });
    return {};
  }

  Status accumulate(Bytes& to, uint32_t room, const Bytes& a, uint32_t a_room, const Bytes& b, uint32_t b_room,
                    const codec::Thc& thc) override {
    const ThcTables tables = tables_of(thc);
    const ThcAddTask task = {.units = to.size() / 8 / thc.width(room),
                             .to = {.words = reinterpret_cast<uint32_t*>(to.data()), .width = thc.width(room), .indices = false},
                             .a = words_of(a, a_room, thc),
                             .b = words_of(b, b_room, thc)};
    for (uint64_t tile = 0; tile * kTileUnits < task.units; ++tile) {
      std::fill_n(reinterpret_cast<uint8_t*>(&sum_shared_), sizeof sum_shared_, uint8_t{0xff});
      blocks_.run([&](const auto& block) { add_tile(block, tables, sum_shared_, task, tile); });
    }
    return {};
  }

  Status decode(ThcData& out, const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    const ThcDecodeTask task = {.elements = cell.elements,
                                .position = cell.position,
                                .key = key,
                                .from = words_of(from, room, thc),
                                .scales = scales.data(),
                                .summands = summands,
                                .multiplier = multiplier,
                                .out = {out.data(), out.type}};
    for_groups(thc, cell, thc.width(room), [&](const auto& block, const ThcTables& tables, float* data, uint64_t index) {
      decode_group(block, tables, shared_, data, task, index);
    });
    return {};
  }

 private:
  static ThcWords<const uint32_t> words_of(const Bytes& from, uint32_t room, const codec::Thc& thc) {
    return {.words = reinterpret_cast<const uint32_t*>(from.data()), .width = thc.width(room), .indices = room == 1};
  }
  /// `width` bits of each element lie behind the elements in shared memory.
  template <class Function>
  void for_groups(const codec::Thc& thc, const ThcCell& cell, uint32_t width, const Function& function) {
    const ThcTables tables = tables_of(thc);
    for (uint64_t index = 0; index < thc.groups(cell.elements); ++index) {
      std::fill_n(reinterpret_cast<uint8_t*>(&shared_), sizeof shared_, uint8_t{0xff});
      const uint32_t elements = thc.group(cell.elements, index).elements;
      std::vector<float> data(padded(elements) + elements / 32 * width, __builtin_nanf(""));
      blocks_.run([&](const auto& block) { function(block, tables, data.data(), index); });
    }
  }

  Blocks blocks_;
  ThcShared shared_;
  ThcSumShared sum_shared_;
};

/// Every width, every byte, every place.
TEST(CudaThc, WordsAreTheUnitsOfTheCpu) {
  CounterRng rng(1, 1);
  for (uint32_t width = 1; width <= codec::kMaxSumBits; ++width) {
    uint16_t values[64], back[64];
    uint32_t words[2 * codec::kMaxSumBits];
    for (uint16_t& value : values) value = static_cast<uint16_t>(rng.below(uint64_t{1} << width));
    kernels::pack_unit(reinterpret_cast<uint8_t*>(words), values, width);
    kernels::unpack_unit(back, reinterpret_cast<const uint8_t*>(words), width);
    const auto column = [&](uint32_t i) {
      ThcColumn made = {0, 0};
      for (uint32_t q = 0; q < 4; ++q) put_value(made, q, values[4 * i + q]);
      return made;
    };
    for (uint32_t word = 0; word < 2 * width; ++word) ASSERT_EQ(pack_word(word, width, column), words[word]) << width << " " << word;
    for (uint32_t place = 0; place < 64; ++place) {
      ASSERT_EQ(back[place], values[place]);
      ASSERT_EQ(value_of(unpack_column(words, width, place / 4), place % 4), values[place]) << width << " " << place;
    }
  }
}

TEST(CudaThc, ColumnsAddModulo65536) {
  CounterRng rng(1, 2);
  for (int round = 0; round < 10000; ++round) {
    const ThcColumn a = {static_cast<uint32_t>(rng.next_u64()), static_cast<uint32_t>(rng.next_u64())};
    const ThcColumn b = {static_cast<uint32_t>(rng.next_u64()), static_cast<uint32_t>(rng.next_u64())};
    for (uint32_t q = 0; q < 4; ++q) ASSERT_EQ(value_of(add(a, b), q), (value_of(a, q) + value_of(b, q)) & 0xffff);
  }
}

/// Every coordinate and dither: the table of steps decides as the search does.
TEST(CudaThc, StepsQuantiseAsTheDefinition) {
  for (const auto& [bits, granularity] : {std::pair{2U, 3U}, {2U, 34U}, {3U, 16U}, {4U, 15U}, {4U, 30U}, {4U, 51U}, {8U, 255U}}) {
    const auto thc = codec::make_thc({.bits = bits, .granularity = granularity}, 2);
    ASSERT_TRUE(thc.ok());
    const ThcTables tables = tables_of(**thc);
    ThcShared shared = {};
    std::copy(std::begin(tables.steps), std::end(tables.steps), shared.steps);
    shared.quantiser = {.normaliser = 1, .factor = 1, .shift = 0, .middle = granularity * 128, .stratum = 0, .counter = {}};
    for (uint32_t u = 0; u <= granularity * 256; ++u) {
      for (uint32_t dither = 0; dither<256; dither += granularity> 100 ? 5 : 1) {
        const uint32_t index = kernels::quantise_one(u, dither, (*thc)->table.data(), (*thc)->gap.data(), (*thc)->levels());
        const float fixed = static_cast<float>(u) - static_cast<float>(granularity * 128);
        ASSERT_EQ(quantised(shared, fixed, dither, 0, true), index) << u << " " << dither;
        ASSERT_EQ(quantised(shared, fixed, dither, 0, false), (*thc)->table[index]) << u << " " << dither;
      }
    }
  }
}

class CudaThcCells : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CudaThcCells, EqualTheCpusBitForBit) {
  HostDevice<Loops> device(GetParam());
  const auto cpu = make_thc_cpu();
  CounterRng rng(GetParam(), 3);
  for (int round = 0; round < 60; ++round) {
    const ThcCase which = random_case(rng);
    ASSERT_EQ(difference(which, device, *cpu), "") << to_text(which);
  }
}

/// Fewer threads than groups need, as many, more.
INSTANTIATE_TEST_SUITE_P(Threads, CudaThcCells, ::testing::Values(32U, 64U, 256U, 512U, 1024U), ::testing::PrintToStringParamName());

/// Threads that are threads: their sanitizer sees whoever goes without a barrier.
TEST(CudaThc, ThreadsShareOnlyAcrossBarriers) {
  HostDevice<Threads> device(8);
  const auto cpu = make_thc_cpu();
  CounterRng rng(1, 4);
  for (int round = 0; round < 8; ++round) {
    const ThcCase which = random_case(rng, 2048);
    ASSERT_EQ(difference(which, device, *cpu), "") << to_text(which);
  }
}

/// Whole groups and every smaller one, at the tiles' edges and across them.
TEST(CudaThc, GroupsOfEverySizeAnywhere) {
  HostDevice<Loops> device(64);
  const auto cpu = make_thc_cpu();
  for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
    for (const uint64_t unit : {0U, 1U, 3U, 31U, 32U, 33U}) {
      const ThcCase which = {.config = {.granularity = 30, .group = codec::kMaxGroup},
                             .ranks = 8,
                             .cell = {.elements = elements, .position = unit * 64},
                             .in = DataType::float32,
                             .out = DataType::float32,
                             .seed = elements,
                             .op = 1,
                             .feedback = true,
                             .plain = true};
      ASSERT_EQ(difference(which, device, *cpu), "") << to_text(which);
    }
  }
}

/// The comparison can fail: a device that answers for another call is found out.
TEST(CudaThc, ADifferenceIsSeen) {
  class Other final : public ThcDevice {
   public:
    Status measure(std::vector<float>& scales, const ThcData& in, const std::vector<float>* residual, const codec::Thc& thc,
                   const ThcCell& cell) override {
      return cpu_->measure(scales, in, residual, thc, cell);
    }
    Status encode(Bytes& to, uint32_t room, const ThcData& in, std::vector<float>* residual, const codec::Thc& thc,
                  const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
      return cpu_->encode(to, room, in, residual, thc, {.seed = key.seed, .op = key.op + 1, .rank = key.rank, .ranks = key.ranks}, cell,
                          scales);
    }
    Status accumulate(Bytes& to, uint32_t room, const Bytes& a, uint32_t a_room, const Bytes& b, uint32_t b_room,
                      const codec::Thc& thc) override {
      return cpu_->accumulate(to, room, a, a_room, b, b_room, thc);
    }
    Status decode(ThcData& out, const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier, const codec::Thc& thc,
                  const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
      return cpu_->decode(out, from, room, summands, multiplier, thc, key, cell, scales);
    }

   private:
    std::unique_ptr<ThcDevice> cpu_ = make_thc_cpu();
  };
  Other other;
  const auto cpu = make_thc_cpu();
  const ThcCase which = {.config = {},
                         .ranks = 2,
                         .cell = {.elements = 5000},
                         .in = DataType::float32,
                         .out = DataType::float32,
                         .seed = 1,
                         .op = 1,
                         .feedback = false,
                         .plain = true};
  EXPECT_NE(difference(which, other, *cpu).find("values: byte"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::cuda
