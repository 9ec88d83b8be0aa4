// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's kernels: the generator's known answers, the rotation, packing, overflow edges, zeros and not-a-numbers.
// Vector targets are compared with scalar in kernels_thc_targets_test.cc.
#include "kernels/thc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/reduce.h"
#include "kernels/targets.h"
#include "kernels/thc_arithmetic.h"
#include "kernels/thc_group.h"

namespace isthmus::kernels {
namespace {

struct Work {
  alignas(64) float data[codec::kMaxGroup];
};

std::vector<float> random_floats(size_t count, uint64_t stream) {
  CounterRng rng(3, stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform() + rng.uniform() - rng.uniform() - rng.uniform());
  return values;
}

std::unique_ptr<const codec::Thc> made(const codec::ThcConfig& config, uint32_t ranks) {
  auto thc = codec::make_thc(config, ranks);
  EXPECT_TRUE(thc.ok()) << thc.status().text();
  return std::move(thc).value();
}

TEST(KernelsThc, PhiloxKnownAnswers) {
  const auto expect = [](const PhiloxBlock& block, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    EXPECT_EQ(block.word[0], a);
    EXPECT_EQ(block.word[1], b);
    EXPECT_EQ(block.word[2], c);
    EXPECT_EQ(block.word[3], d);
  };
  expect(philox(0, 0, 0, 0, 0), 0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48);
  expect(philox(~0ULL, ~0U, ~0U, ~0U, ~0U), 0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662);
  expect(philox(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), 0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a);
}

/// What encoders quantise: the exact transform but for rounding, however they are distributed: also where few have everything.
TEST(KernelsThc, FixedPointIsTheTransformButForRounding) {
  CounterRng rng(11, 12);
  for (const auto& [bits, ranks] : {std::pair{8U, 1U}, {4U, 1U}, {4U, 2U}, {4U, 4U}, {4U, 8U}, {4U, 17U}, {2U, 8U}}) {
    const auto thc = made({.bits = bits}, ranks);
    for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
      for (const uint32_t kind : {0U, 1U, 8U, 64U, elements}) {  // nearly Gaussian, or so many of the same size
        const std::vector<float> gaussian = random_floats(elements, elements);
        std::vector<double> exact(elements);
        for (uint32_t i = 0; i < elements; ++i) {
          const bool there = kind == 8 ? i < 64 && i % 8 == 0 : i < kind;
          exact[i] = kind == 0 ? double{gaussian[i]} : !there ? 0 : rng.chance(0.5) ? 1 : -1;
        }
        std::vector<float> data(exact.begin(), exact.end());
        const float scale = scale_of(sum_of_squares(data.data(), elements), elements);
        const ThcQuantiser q = quantiser(numbers_of(*thc), {.seed = 1, .op = 2, .rank = 0, .ranks = ranks}, elements, 0, scale, scale);
        hadamard_to_fixed_point(data.data(), elements, q.factor);
        for (uint32_t half = 1; half < elements; half *= 2) {
          for (uint32_t i = 0; i < elements; ++i) {
            if ((i & half) != 0) continue;
            const double a = exact[i], b = exact[i + half];
            exact[i] = a + b;
            exact[i + half] = a - b;
          }
        }
        double squares = 0;
        for (uint32_t i = 0; i < elements; ++i) squares += std::pow(data[i] - exact[i] * double{q.factor}, 2);
        // Eight elements make one that is rounded, by 1/12 of a square unit.
        EXPECT_LT(squares / elements, 1.5 * elements / 8 / 12 + 0.3)
            << "b=" << bits << " ranks " << ranks << " kind " << kind << " of " << elements;
      }
    }
  }
}

class KernelsThcTarget : public ::testing::TestWithParam<const Target*> {
 protected:
  [[nodiscard]] const ThcKernels& kernels() const { return GetParam()->thc; }
};

TEST_P(KernelsThcTarget, RotatingTwiceIsTheIdentity) {
  Work work;
  for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
    const auto x = random_floats(elements, elements);
    const ThcPlace place = {.position = uint64_t{elements} * 7, .elements = elements};
    kernels().rotate(work.data, x.data(), {.seed = 5, .op = 9}, place, 1);
    double before = 0, after = 0, error = 0;
    for (uint32_t i = 0; i < elements; ++i) {
      before += double{x[i]} * double{x[i]};
      after += double{work.data[i]} * double{work.data[i]} / elements;
    }
    EXPECT_NEAR(after / before, 1, 1e-6);
    kernels().unrotate(work.data, {.seed = 5, .op = 9}, place, 1.0F / static_cast<float>(elements));
    for (uint32_t i = 0; i < elements; ++i) error += std::pow(double{work.data[i]} - double{x[i]}, 2);
    EXPECT_LT(error / before, 1e-13);
  }
}

TEST_P(KernelsThcTarget, OneSpikeSpreadsEvenlyAndRotationIsLinear) {
  Work spike, a, b, both;
  constexpr uint32_t kElements = 1024;
  const ThcPlace place = {.position = 0, .elements = kElements};
  std::vector<float> x(kElements, 0.0F);
  x[77] = 1;
  kernels().rotate(spike.data, x.data(), {.seed = 1, .op = 2}, place, 1.0F / 32);
  for (uint32_t i = 0; i < kElements; ++i) ASSERT_EQ(std::abs(spike.data[i]), 1.0F / 32);
  const auto y = random_floats(kElements, 1), z = random_floats(kElements, 2);
  std::vector<float> sum(kElements);
  for (uint32_t i = 0; i < kElements; ++i) sum[i] = y[i] + z[i];
  kernels().rotate(a.data, y.data(), {.seed = 1, .op = 2}, place, 1);
  kernels().rotate(b.data, z.data(), {.seed = 1, .op = 2}, place, 1);
  kernels().rotate(both.data, sum.data(), {.seed = 1, .op = 2}, place, 1);
  for (uint32_t i = 0; i < kElements; ++i) ASSERT_NEAR(both.data[i], a.data[i] + b.data[i], 1e-4);
}

TEST_P(KernelsThcTarget, SignsAreFairAndFreshPerCallSeedAndPlace) {
  const auto signs = [this](uint64_t seed, uint64_t op, uint64_t position) {
    Work work;
    std::vector<float> first(8192, 0.0F), bits;
    kernels().rotate(work.data, random_floats(8192, 4).data(), {.seed = seed, .op = op}, {.position = position, .elements = 8192}, 1);
    for (const float value : work.data) bits.push_back(value);
    return bits;
  };
  const auto usual = signs(1, 1, 0);
  EXPECT_EQ(signs(1, 1, 0), usual);
  EXPECT_NE(signs(2, 1, 0), usual);
  EXPECT_NE(signs(1, 2, 0), usual);
  EXPECT_NE(signs(1, (1ULL << 32) + 1, 0), usual);
  EXPECT_NE(signs(1, 1, 8192), usual);
  // Undoing the transform of ones leaves the signs themselves.
  Work work;
  std::fill(std::begin(work.data), std::end(work.data), 0.0F);
  work.data[0] = 1;
  kernels().unrotate(work.data, {.seed = 1, .op = 1}, {.position = 0, .elements = 8192}, 1);
  double sum = 0;
  for (const float value : work.data) {
    ASSERT_EQ(std::abs(value), 1.0F);
    sum += double{value};
  }
  EXPECT_LT(std::abs(sum), 4 * std::sqrt(8192.0));
}

/// Indices of every rank at the top: the sum is n g, at the widest n of a width and one above.
TEST_P(KernelsThcTarget, SumsAtTheLimitOfAWidthDoNotWrap) {
  for (const auto& [bits, granularity] : {std::pair{4U, 15U}, {4U, 30U}, {4U, 51U}, {4U, 255U}, {2U, 3U}, {3U, 42U}, {8U, 255U}}) {
    const auto thc = made({.bits = bits, .granularity = granularity}, 2);
    for (uint32_t width = bits + 1; width <= codec::kMaxSumBits; ++width) {
      for (const uint32_t summands : {((1U << width) - 1) / granularity, ((1U << width) - 1) / granularity + 1}) {
        if (summands < 2 || summands > thc->max_summands() || summands > 600) continue;
        std::vector<uint8_t> top(8 * bits, 0xff), sum(top);
        for (uint32_t held = 1; held < summands; ++held) {
          std::vector<uint8_t> next(8 * thc->width(held + 1));
          kernels().accumulate(next.data(), held + 1, sum.data(), held, top.data(), 1, 1, *thc);
          sum = next;
        }
        Work work;
        kernels().levels(work.data, sum.data(), summands, summands, 64, *thc);
        for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(work.data[i], static_cast<float>(summands * granularity)) << summands;
      }
    }
  }
}

/// What every element becomes when `inputs` (one vector of one group a rank) are averaged.
std::vector<float> average(const Target& target, const codec::Thc& thc, const std::vector<std::vector<float>>& inputs) {
  Work work;
  const auto elements = static_cast<uint32_t>(inputs[0].size());
  const auto ranks = static_cast<uint32_t>(inputs.size());
  const ThcPlace place = {.position = 4096, .elements = elements};
  uint32_t largest = 0;
  const auto input = [&](uint32_t rank) { return CodecInput{.data = inputs[rank].data(), .type = DataType::float32, .count = elements}; };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    largest = std::max(largest, std::bit_cast<uint32_t>(thc_measure(target, input(rank), elements, work.data)));
  }
  std::vector<uint8_t> sum(elements / 8 * thc.width(ranks)), one(sum.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint8_t* to = rank == 0 ? sum.data() : one.data();
    const float own = thc_measure(target, input(rank), elements, work.data);
    thc_encode(target, to, ranks, input(rank), nullptr, thc, {.seed = 1, .op = 1, .rank = rank, .ranks = ranks}, place,
               {.own = own, .joined = std::bit_cast<float>(largest)}, work.data);
    if (rank > 0) target.thc.accumulate(sum.data(), ranks, sum.data(), ranks, one.data(), ranks, elements / 64, thc);
  }
  std::vector<float> result(elements, -1);
  thc_decode(target, {.data = result.data(), .type = DataType::float32, .count = elements}, sum.data(), ranks, ranks, 1, thc,
             {.seed = 1, .op = 1, .rank = 0, .ranks = ranks}, place, std::bit_cast<float>(largest), work.data);
  return result;
}

TEST_P(KernelsThcTarget, ZerosStayExactZeros) {
  const auto thc = made({}, 3);
  for (const float zero : {0.0F, -0.0F}) {
    for (const float value : average(*GetParam(), *thc, {3, std::vector<float>(1024, zero)})) ASSERT_EQ(std::bit_cast<uint32_t>(value), 0U);
  }
}

TEST_P(KernelsThcTarget, WhatIsNotFiniteOnOneRankIsNotANumberForAll) {
  const auto thc = made({}, 3);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("1"), -std::nanf("")}) {
    std::vector<std::vector<float>> inputs(3, random_floats(1024, 8));
    inputs[1][1000] = bad;
    for (const float value : average(*GetParam(), *thc, inputs)) ASSERT_EQ(std::bit_cast<uint32_t>(value), 0x7fc00000U);
  }
}

/// Also where squares of float32 overflow or vanish.
TEST_P(KernelsThcTarget, AnyMagnitudeThatAFloatHas) {
  const auto thc = made({.bits = 8}, 2);
  for (const float magnitude : {1e-38F, 1e-30F, 1e-20F, 1e-5F, 1.0F, 1e10F, 1e20F, 1e30F, 5e37F}) {
    std::vector<std::vector<float>> inputs(2, random_floats(1024, 9));
    for (auto& input : inputs) {
      for (float& value : input) value *= magnitude;
    }
    const auto result = average(*GetParam(), *thc, inputs);
    double error = 0, energy = 0;
    for (size_t i = 0; i < result.size(); ++i) {
      error += std::pow((double{result[i]} - double{inputs[0][i]}) / double{magnitude}, 2);
      energy += std::pow(double{inputs[0][i]} / double{magnitude}, 2);
    }
    EXPECT_LT(error / energy, 1e-3) << magnitude;
  }
}

/// What the encoding lacks goes to the residual, so that encoding and residual together are the input.
TEST_P(KernelsThcTarget, ResidualIsWhatTheEncodingLacks) {
  Work work;
  const auto thc = made({.granularity = 30, .feedback = true}, 2);
  const auto x = random_floats(1000, 12);
  std::vector<float> residual(1000, 0.25F), decoded(1000);
  std::vector<uint8_t> bytes(1024 / 2);
  const ThcPlace place = {.position = 0, .elements = 1024};
  const CodecKey key = {.seed = 1, .op = 1, .rank = 1, .ranks = 2};
  const CodecInput in = {.data = x.data(), .type = DataType::float32, .count = 1000, .residual = residual.data()};
  const float scale = thc_measure(*GetParam(), in, 1024, work.data);
  thc_encode(*GetParam(), bytes.data(), 1, in, residual.data(), *thc, key, place, {.own = scale, .joined = scale * 1.5F}, work.data);
  thc_decode(*GetParam(), {.data = decoded.data(), .type = DataType::float32, .count = 1000}, bytes.data(), 1, 1, 1, *thc, key, place,
             scale * 1.5F, work.data);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(residual[i], (x[i] + 0.25F) - decoded[i]);
}

TEST_P(KernelsThcTarget, SumsAreAveragesTimesRanks) {
  Work work;
  const auto thc = made({}, 4);
  std::vector<uint8_t> bytes(1024 / 8 * thc->width(4));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 % 200);
  std::vector<float> average(1024), sum(1024), partial(1024);
  const auto decode = [&](std::vector<float>& to, uint32_t summands, uint32_t multiplier) {
    thc_decode(*GetParam(), {.data = to.data(), .type = DataType::float32, .count = 1024}, bytes.data(), 4, summands, multiplier, *thc,
               {.seed = 1, .op = 1, .rank = 0, .ranks = 4}, {.position = 0, .elements = 1024}, 2.5F, work.data);
  };
  decode(average, 4, 1);
  decode(sum, 4, 4);
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], 4 * average[i]);
}

/// Three of five ranks' encodings, as a deadline leaves them: their average, and their sum.
TEST_P(KernelsThcTarget, SumsOfFewerRanksThanThereAre) {
  constexpr uint32_t kRanks = 5, kElements = 1024;
  const auto thc = made({.bits = 8}, kRanks);
  const ThcPlace place = {.position = 8192, .elements = kElements};
  std::vector<std::vector<float>> inputs;
  for (uint32_t rank = 0; rank < kRanks; ++rank) inputs.push_back(random_floats(kElements, 20 + rank));
  for (float& value : inputs[4]) value *= 1.5F;  // the largest scale is that of a rank whose encoding may be missing
  Work work;
  uint32_t largest = 0;
  const auto input = [&](uint32_t rank) { return CodecInput{.data = inputs[rank].data(), .type = DataType::float32, .count = kElements}; };
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    largest = std::max(largest, std::bit_cast<uint32_t>(thc_measure(*GetParam(), input(rank), kElements, work.data)));
  }
  const auto scale = std::bit_cast<float>(largest);
  for (uint32_t present = 1; present < 1U << kRanks; ++present) {
    const auto summands = static_cast<uint32_t>(std::popcount(present));
    std::vector<double> mean(kElements, 0.0);
    std::vector<uint8_t> sum(kElements / 8 * thc->width(kRanks), 0), one(sum.size());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if ((present >> rank & 1) == 0) continue;
      const float own = thc_measure(*GetParam(), input(rank), kElements, work.data);
      thc_encode(*GetParam(), one.data(), kRanks, input(rank), nullptr, *thc, {.seed = 1, .op = 1, .rank = rank, .ranks = kRanks}, place,
                 {.own = own, .joined = scale}, work.data);
      kernels().accumulate(sum.data(), kRanks, sum.data(), kRanks, one.data(), kRanks, kElements / 64, *thc);
      for (uint32_t i = 0; i < kElements; ++i) mean[i] += double{inputs[rank][i]} / summands;
    }
    std::vector<float> average(kElements), total(kElements);
    const CodecKey key = {.seed = 1, .op = 1, .rank = 0, .ranks = kRanks};
    const auto decode = [&](std::vector<float>& to, uint32_t multiplier) {
      thc_decode(*GetParam(), {.data = to.data(), .type = DataType::float32, .count = kElements}, sum.data(), kRanks, summands, multiplier,
                 *thc, key, place, scale, work.data);
    };
    decode(average, 1);
    decode(total, summands);
    double error = 0, energy = 0;
    for (uint32_t i = 0; i < kElements; ++i) {
      error += std::pow(double{average[i]} - mean[i], 2);
      energy += mean[i] * mean[i];
      ASSERT_NEAR(total[i], static_cast<float>(summands) * average[i], 2e-7F * std::abs(total[i]));
    }
    EXPECT_LT(error / energy, 1e-3) << "ranks " << present;
  }
}

std::string target_name(const ::testing::TestParamInfo<const Target*>& info) { return std::string(info.param->name); }

INSTANTIATE_TEST_SUITE_P(All, KernelsThcTarget, ::testing::ValuesIn(available_targets().begin(), available_targets().end()), target_name);

}  // namespace
}  // namespace isthmus::kernels
