// SPDX-License-Identifier: Apache-2.0
// The kernels of the codecs that rotate nothing, on every target: results against a plain computation of the same, limits of the codes,
// what is not finite, residuals, and that rounding to bfloat16 at random has no bias (and that rounding to nearest has).
#include "kernels/baseline.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/float_types.h"
#include "base/rng.h"
#include "kernels/thc_arithmetic.h"
#include "kernels_baseline.h"
#include "kernels_values.h"

namespace isthmus::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

const codec::Codec& bf16() { return *codec::find("bf16"); }
const codec::Codec& int8() { return *codec::find("int8"); }
const codec::Codec& int4() { return *codec::find("int4"); }

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

std::vector<float> random_floats(size_t count, uint64_t stream) {
  CounterRng rng(3, stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform() + rng.uniform() - rng.uniform() - rng.uniform());
  return values;
}

/// All kinds of bit patterns, with magnitudes below infinity's unless `any`.
std::vector<float> float_patterns(size_t count, uint32_t seed, bool any) {
  Values source(DataType::float32, seed);
  std::vector<float> values;
  while (values.size() < count) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(source.next()));
    if (any || std::isfinite(value)) values.push_back(value);
  }
  return values;
}

struct BlockFormat {
  const codec::Codec* codec;
  int bits, top;
};

BlockFormat formats(bool wide) { return wide ? BlockFormat{&int8(), 8, 127} : BlockFormat{&int4(), 4, 7}; }

/// A block's codes and scale as docs/compression.md lays them out.
struct Block {
  float scale;
  int code[32];

  Block(const uint8_t* bytes, int bits) {
    scale = BFloat16{static_cast<uint16_t>(bytes[0] | bytes[1] << 8)}.to_float();
    for (int element = 0; element < 32; ++element) {
      const int place = element % 8 * 4 + element / 8;
      const uint8_t byte = bytes[2 + (bits == 8 ? place : place % 16)];
      const int raw = bits == 8 ? byte : byte >> (place / 16 * 4) & 15;
      code[element] = raw >= 1 << (bits - 1) ? raw - (1 << bits) : raw;
    }
  }
};

/// The least normal bfloat16 of at least the largest magnitude's share of a code, but one that all codes can be multiplied by.
float scale_for(float largest, int top) {
  if (largest == 0) return 0;
  BFloat16 scale{static_cast<uint16_t>(bits_of(largest / static_cast<float>(top)) >> 16)};
  while (scale.to_float() < largest / static_cast<float>(top) || !std::isnormal(scale.to_float())) ++scale.bits;
  while (!std::isfinite(scale.to_float() * static_cast<float>(top))) --scale.bits;
  return scale.to_float();
}

class KernelsBaseline : public ::testing::TestWithParam<const Target*> {
 protected:
  [[nodiscard]] const Target& target() const { return *GetParam(); }
};

// --- bf16 ------------------------------------------------------------------------------------------------------------------------

/// The neighbour towards zero or the one beyond it, from the random bits that docs/compression.md assigns to the place.
float rounded_plainly(float value, const CodecKey& key, uint64_t position) {
  if (value != value) return kNan;
  if (std::isinf(value)) return value;
  const uint64_t word = position % 64;
  const PhiloxBlock block = philox(key.seed, static_cast<uint32_t>(position / 128 * 16 + word % 16), static_cast<uint32_t>(key.op),
                                   key.rank, static_cast<uint32_t>(key.op >> 32 << 8 | 5));
  const uint32_t random = position % 128 < 64 ? block.word[word / 16] & 0xffff : block.word[word / 16] >> 16;
  const BFloat16 inner{static_cast<uint16_t>((bits_of(value) & 0x7fffffff) >> 16)};
  const BFloat16 outer{static_cast<uint16_t>(inner.bits == 0x7f7f ? 0x7f7f : inner.bits + 1)};
  const double gap = inner.bits == 0x7f7f ? 1 : double{outer.to_float()} - double{inner.to_float()};
  const bool further = (double{std::abs(value)} - double{inner.to_float()}) / gap * 65536 + random >= 65536;
  const float magnitude = further ? outer.to_float() : inner.to_float();
  return magnitude == 0 ? 0 : std::copysign(magnitude, value);
}

TEST_P(KernelsBaseline, Bf16IsOneOfTheNeighboursByTheRandomBitsOfItsPlace) {
  for (uint32_t trial = 0; trial < 40; ++trial) {
    const size_t count = trial < 20 ? 5 * trial : 4096 - trial % 2;
    const auto values = float_patterns(count, trial, true);
    const CodecKey key = {.seed = 77ULL * trial << 30, .op = trial * 0x123456789ULL, .rank = trial, .ranks = 40};
    const uint64_t position = uint64_t{trial} * 4128;
    const auto results = decoded(target(), bf16(), encoded(target(), bf16(), values, key, position), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(bits_of(results[i]), bits_of(rounded_plainly(values[i], key, position + i))) << values[i] << " at " << position + i;
    }
  }
}

/// The same elements in pieces that begin elsewhere get the same bits.
TEST_P(KernelsBaseline, Bf16DoesNotDependOnWhereACallIsCut) {
  const auto values = random_floats(4096, 1);
  const CodecKey key = {.seed = 1, .op = 2, .rank = 3, .ranks = 4};
  const ByteVector whole = encoded(target(), bf16(), values, key, 8192);
  for (const size_t cut : {32U, 64U, 96U, 1056U}) {
    const std::vector<float> first(values.begin(), values.begin() + static_cast<ptrdiff_t>(cut)),
        rest(values.begin() + static_cast<ptrdiff_t>(cut), values.end());
    ByteVector both = encoded(target(), bf16(), first, key, 8192);
    const ByteVector second = encoded(target(), bf16(), rest, key, 8192 + cut);
    both.insert(both.end(), second.begin(), second.end());
    ASSERT_EQ(both, whole) << cut;
  }
}

TEST_P(KernelsBaseline, Bf16IsRoundedAnewForEverySeedCallRankAndPlace) {
  const auto values = random_floats(256, 2);
  const CodecKey key = {.seed = 1, .op = 2, .rank = 3, .ranks = 4};
  const ByteVector usual = encoded(target(), bf16(), values, key, 0);
  EXPECT_EQ(encoded(target(), bf16(), values, key, 0), usual);
  EXPECT_NE(encoded(target(), bf16(), values, {.seed = 1ULL << 40 | 1, .op = 2, .rank = 3, .ranks = 4}, 0), usual);
  EXPECT_NE(encoded(target(), bf16(), values, {.seed = 1, .op = 3, .rank = 3, .ranks = 4}, 0), usual);
  EXPECT_NE(encoded(target(), bf16(), values, {.seed = 1, .op = 1ULL << 32 | 2, .rank = 3, .ranks = 4}, 0), usual);
  EXPECT_NE(encoded(target(), bf16(), values, {.seed = 1, .op = 2, .rank = 0, .ranks = 4}, 0), usual);
  EXPECT_NE(encoded(target(), bf16(), values, key, 128), usual);
}

TEST_P(KernelsBaseline, WhatIsABfloat16AlreadyStays) {
  for (uint32_t first = 0; first < 0x10000; first += 4096) {
    std::vector<BFloat16> values;
    for (uint32_t i = 0; i < 4096; ++i) values.push_back({static_cast<uint16_t>(first + i)});
    const ByteVector bytes =
        encoded(target(), bf16(), {.data = values.data(), .type = DataType::bfloat16, .count = 4096}, {.seed = 9, .op = first}, 0);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t magnitude = values[i].bits & 0x7fff;
      const uint32_t expected = magnitude > 0x7f80 ? 0x7fc0U : magnitude == 0 ? 0U : values[i].bits;
      ASSERT_EQ(bytes[2 * i] | bytes[2 * i + 1] << 8, expected);
    }
  }
}

TEST_P(KernelsBaseline, FiniteValuesStayFiniteInBf16) {
  const std::vector<float> values = {kMost,     -kMost,    std::bit_cast<float>(0x7f7f0001U), std::bit_cast<float>(0x7f7effffU),
                                     kInfinity, -kInfinity};
  for (uint64_t op = 0; op < 64; ++op) {
    const auto results = decoded(target(), bf16(), encoded(target(), bf16(), values, {.op = op}), values.size());
    const float largest = BFloat16{0x7f7f}.to_float();
    ASSERT_EQ(results[0], largest);
    ASSERT_EQ(results[1], -largest);
    ASSERT_EQ(results[2], largest);
    ASSERT_LE(results[3], largest);
    ASSERT_EQ(results[4], kInfinity);
    ASSERT_EQ(results[5], -kInfinity);
  }
}

/// How far the mean of `rounds` roundings is from the values, in standard errors of the worst element.
template <class Round>
double deviation(const std::vector<float>& values, uint32_t rounds, const Round& round) {
  std::vector<double> sum(values.size(), 0.0);
  for (uint32_t op = 0; op < rounds; ++op) {
    const std::vector<float> results = round(op);
    for (size_t i = 0; i < values.size(); ++i) sum[i] += double{results[i]};
  }
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double exponent = std::floor(std::log2(double{std::abs(values[i])})), gap = std::exp2(exponent - 7);
    const double share = std::fmod(double{std::abs(values[i])}, gap) / gap;
    const double error = gap * std::sqrt(std::max(share * (1 - share), 0x1p-16) / rounds);
    worst = std::max(worst, std::abs(sum[i] / rounds - double{values[i]}) / error);
  }
  return worst;
}

TEST_P(KernelsBaseline, Bf16HasNoBiasUnlikeRoundingToNearest) {
  const auto values = random_floats(512, 5);
  const double at_random = deviation(values, 1024, [&](uint32_t op) {
    return decoded(target(), bf16(), encoded(target(), bf16(), values, {.seed = 4, .op = op}), values.size());
  });
  EXPECT_LT(at_random, 5.5);  // 512 elements; a standard error of 5.5 happens once in 5e4 runs, with one seed never or always
  const double nearest = deviation(values, 1024, [&](uint32_t) {
    auto results = values;
    for (float& value : results) value = BFloat16::from_float(value).to_float();
    return results;
  });
  EXPECT_GT(nearest, 20);
}

// --- int8 and int4 -----------------------------------------------------------------------------------------------------------------

TEST_P(KernelsBaseline, BlocksHoldTheScaleAndTheNearestCodes) {
  for (const bool wide : {false, true}) {
    const auto [codec, bits, top] = formats(wide);
    for (uint32_t trial = 0; trial < 60; ++trial) {
      const size_t count = trial < 50 ? 2 * trial + 1 : 4096 - trial % 2;
      const auto values = trial % 3 == 0 ? float_patterns(count, trial, false) : random_floats(count, trial);
      const ByteVector bytes = encoded(target(), *codec, values);
      for (size_t first = 0; first < count; first += 32) {
        float largest = 0;
        for (size_t i = first; i < std::min(count, first + 32); ++i) largest = std::max(largest, std::abs(values[i]));
        const Block block(&bytes[first / 32 * (2 + 4 * static_cast<size_t>(bits))], bits);
        const float scale = scale_for(largest, top);
        ASSERT_EQ(bits_of(block.scale), bits_of(scale)) << largest;
        for (size_t i = 0; i < 32; ++i) {
          const float value = first + i < count ? values[first + i] : 0;
          ASSERT_EQ(block.code[i], scale == 0 ? 0 : static_cast<int>(std::nearbyint(value * (1 / scale)))) << value << " of " << scale;
        }
      }
    }
  }
}

TEST_P(KernelsBaseline, DecodingIsCodeTimesScale) {
  CounterRng rng(8, 0);
  for (const bool wide : {false, true}) {
    const auto [codec, bits, top] = formats(wide);
    const size_t stride = 2 + 4 * static_cast<size_t>(bits);
    for (uint32_t first = 0; first < 0x10000; first += 128) {  // all scales, also those that no encoder writes
      ByteVector bytes(128 * stride);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next_u64());
      for (uint32_t i = 0; i < 128; ++i) {
        bytes[i * stride] = static_cast<uint8_t>(first + i);
        bytes[i * stride + 1] = static_cast<uint8_t>((first + i) >> 8);
      }
      const auto values = decoded(target(), *codec, bytes, 4096);
      for (size_t i = 0; i < values.size(); ++i) {
        const Block block(&bytes[i / 32 * stride], bits);
        const float expected = std::isfinite(block.scale) ? static_cast<float>(block.code[i % 32]) * block.scale : kNan;
        ASSERT_EQ(bits_of(values[i]), bits_of(expected));
      }
    }
  }
}

/// For largest magnitudes from the least subnormal to the largest float: codes in range, results finite, errors at most half a scale.
TEST_P(KernelsBaseline, ErrorsAreAtMostHalfAScaleAtAnyMagnitude) {
  CounterRng rng(9, 0);
  for (const bool wide : {false, true}) {
    const auto [codec, bits, top] = formats(wide);
    for (uint32_t pattern = 1; pattern < 0x7f800000; pattern += 1 + static_cast<uint32_t>(rng.below(3 << 16))) {
      const uint32_t near_end = pattern > 0x7f7fffff - (3 << 16) ? 0x7f7fffff - pattern % 3 : pattern;
      const auto largest = std::bit_cast<float>(near_end);
      std::vector<float> values(32);
      for (float& value : values) value = static_cast<float>((2 * rng.uniform() - 1) * double{largest});
      values[rng.below(32)] = rng.chance(0.5) ? largest : -largest;
      const ByteVector bytes = encoded(target(), *codec, values);
      const Block block(bytes.data(), bits);
      const auto results = decoded(target(), *codec, bytes, 32);
      ASSERT_LE(double{block.scale}, std::max(double{largest} / top * (1 + 0x1p-7), 0x1p-126));
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_LE(std::abs(block.code[i]), top) << largest;
        ASSERT_LE(std::abs(double{results[i]} - double{values[i]}), double{block.scale} * (0.5 + 2e-5)) << largest;
      }
    }
  }
}

TEST_P(KernelsBaseline, CodesOfFourBitsAreTheirOwnEncoding) {
  const auto values = random_floats(4096, 11);
  const ByteVector once = encoded(target(), int4(), values);
  EXPECT_EQ(encoded(target(), int4(), decoded(target(), int4(), once, 4096)), once);
}

// --- all -------------------------------------------------------------------------------------------------------------------------

TEST_P(KernelsBaseline, ZerosStayExactZeros) {
  for (const codec::Codec* codec : codec::registry()) {
    for (const float zero : {0.0F, -0.0F}) {
      for (const size_t count : {1U, 32U, 100U, 4096U}) {
        std::vector<float> values(count, zero);
        for (const float value : decoded(target(), *codec, encoded(target(), *codec, values), count)) ASSERT_EQ(bits_of(value), 0U);
        values[count / 2] = 1;  // zeros among others
        const auto results = decoded(target(), *codec, encoded(target(), *codec, values), count);
        for (size_t i = 0; i < count; ++i) ASSERT_TRUE(i == count / 2 || bits_of(results[i]) == 0);
      }
    }
  }
}

TEST_P(KernelsBaseline, WhatIsNotFiniteIsNotANumberInItsBlockAlone) {
  for (const bool wide : {false, true}) {
    const codec::Codec& codec = *formats(wide).codec;
    const auto clean = random_floats(100, 12);
    const auto expected = decoded(target(), codec, encoded(target(), codec, clean), 100);
    for (const float bad : {kInfinity, -kInfinity, kNan, -kNan, std::bit_cast<float>(0x7f800001U)}) {
      for (const size_t where : {0U, 31U, 32U, 63U, 64U, 99U}) {
        auto values = clean;
        values[where] = bad;
        const auto results = decoded(target(), codec, encoded(target(), codec, values), 100);
        for (size_t i = 0; i < 100; ++i) {
          ASSERT_EQ(bits_of(results[i]), i / 32 == where / 32 ? 0x7fc00000U : bits_of(expected[i])) << bad << " at " << where << ": " << i;
        }
      }
    }
  }
}

/// Encoding and residual together are the input, also where the residual of the last call is overwritten.
TEST_P(KernelsBaseline, ResidualIsWhatTheEncodingLacks) {
  for (const codec::Codec* codec : codec::registry()) {
    for (const size_t count : {1U, 33U, 1000U, 4095U, 4096U}) {
      auto values = random_floats(count, count);
      auto residual = random_floats(count, count + 1);
      values[count / 2] = kMost;
      residual[count / 2] = 0;
      const auto before = residual;
      const CodecInput in = {.data = values.data(), .type = DataType::float32, .count = count, .residual = residual.data()};
      const ByteVector bytes = encoded(target(), *codec, in, {.seed = 2, .op = 3, .rank = 1, .ranks = 2}, 64, residual.data());
      const auto results = decoded(target(), *codec, bytes, count);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(residual[i], values[i] + before[i] - results[i]) << codec->name << ' ' << i;
      std::vector<float> first(count);
      const ByteVector without =
          encoded(target(), *codec, {.data = values.data(), .type = DataType::float32, .count = count}, {}, 0, first.data());
      const auto plain = decoded(target(), *codec, without, count);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(first[i], values[i] - plain[i]) << codec->name << ' ' << i;
    }
  }
}

TEST_P(KernelsBaseline, NothingCanMakeUpForWhatIsNoNumber) {
  for (const codec::Codec* codec : codec::registry()) {
    for (const float bad : {kInfinity, -kInfinity, kNan}) {
      auto values = random_floats(64, 14);
      values[40] = bad;
      std::vector<float> residual(64, 0.25F);
      const CodecInput in = {.data = values.data(), .type = DataType::float32, .count = 64, .residual = residual.data()};
      encoded(target(), *codec, in, {}, 0, residual.data());
      for (size_t i = 0; i < 64; ++i) ASSERT_TRUE(std::isfinite(residual[i])) << codec->name;
      EXPECT_EQ(residual[40], 0);
      EXPECT_EQ(residual[41] == 0, codec != &bf16());
    }
  }
}

/// Rounding errors carried over to the next call: the mean of many calls is nearer than one by their number.
TEST_P(KernelsBaseline, ResidualsMakeTheMeanOfManyCallsRight) {
  const auto values = random_floats(320, 15);
  std::vector<float> residual(values.size(), 0.0F);
  std::vector<double> sum(values.size(), 0.0);
  constexpr uint32_t kCalls = 50;
  for (uint32_t call = 0; call < kCalls; ++call) {
    const CodecInput in = {.data = values.data(), .type = DataType::float32, .count = values.size(), .residual = residual.data()};
    const auto results = decoded(target(), int4(), encoded(target(), int4(), in, {}, 0, residual.data()), values.size());
    for (size_t i = 0; i < values.size(); ++i) sum[i] += double{results[i]};
  }
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(sum[i] / kCalls, double{values[i]}, 0.3 / kCalls);
}

TEST_P(KernelsBaseline, HalvesAreReadAndWritten) {
  const auto floats = random_floats(333, 16);
  std::vector<Float16> halves;
  std::vector<float> same;
  for (const float value : floats) {
    halves.push_back(Float16::from_float(value));
    same.push_back(halves.back().to_float());
  }
  PieceWork work;
  for (const codec::Codec* codec : codec::registry()) {
    const ByteVector bytes = encoded(target(), *codec, {.data = halves.data(), .type = DataType::float16, .count = 333}, {.seed = 1}, 32);
    ASSERT_EQ(bytes, encoded(target(), *codec, same, {.seed = 1}, 32)) << codec->name;
    std::vector<Float16> results(333);
    baseline_decode(target(), *codec, {.data = results.data(), .type = DataType::float16, .count = 333}, bytes.data(), work.data);
    const auto expected = decoded(target(), *codec, bytes, 333);
    for (size_t i = 0; i < 333; ++i) ASSERT_EQ(results[i].bits, Float16::from_float(expected[i]).bits) << codec->name;
  }
}

TEST_P(KernelsBaseline, SubnormalsAreNotLost) {
  for (const bool wide : {false, true}) {
    const auto [codec, bits, top] = formats(wide);
    const float least_scale = std::numeric_limits<float>::min();
    const std::vector<float> values = {kLeast, least_scale * 0.625F, -least_scale * 0.75F, least_scale * 0.375F};
    const auto results = decoded(target(), *codec, encoded(target(), *codec, values), 4);
    EXPECT_EQ(results, (std::vector<float>{0, least_scale, -least_scale, 0}));
    const std::vector<float> larger = {kLeast, least_scale * 6.4F, -least_scale, least_scale * 2.6F};
    EXPECT_EQ(decoded(target(), *codec, encoded(target(), *codec, larger), 4),
              (std::vector<float>{0, least_scale * 6, -least_scale, least_scale * 3}));
  }
  for (const float value : {kLeast, -kLeast}) {  // between the two least bfloat16 values, and once in 65536 not the lower
    const auto results = decoded(target(), bf16(), encoded(target(), bf16(), std::vector<float>(4096, value)), 4096);
    EXPECT_LT(std::count_if(results.begin(), results.end(), [](float result) { return result != 0; }), 4);
  }
}

std::string target_name(const ::testing::TestParamInfo<const Target*>& info) { return std::string(info.param->name); }

INSTANTIATE_TEST_SUITE_P(All, KernelsBaseline, ::testing::ValuesIn(available_targets().begin(), available_targets().end()), target_name);

}  // namespace
}  // namespace isthmus::kernels
