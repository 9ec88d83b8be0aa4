// SPDX-License-Identifier: Apache-2.0
// The sweeps' verification can be trusted: numbers are what their bits mean, results do not depend on the order of operations, and
// a single wrong element is found.
#include "sweep/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace sweep {
namespace {

constexpr size_t kElements = 257;
constexpr int kRankCounts[] = {1, 2, 3, 8, 33, 70};

TEST(Element, DecodesLandmarks) {
  EXPECT_EQ(Half::decode(0x7bff), 65504);
  EXPECT_EQ(Half::decode(0x0001), 0x1p-24);
  EXPECT_EQ(Half::decode(0x8400), -0x1p-14);
  EXPECT_EQ(Half::decode(0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Bfloat16::decode(0x3f80), 1);
  EXPECT_EQ(Bfloat16::decode(0xc049), -3.140625);
  EXPECT_EQ(Float8e4m3::decode(0x7e), 448);
  EXPECT_EQ(Float8e4m3::decode(0x01), 0x1p-9);
  EXPECT_EQ(Float8e4m3::decode(0x78), 256);
  EXPECT_TRUE(std::isnan(Float8e4m3::decode(0x7f)));
  EXPECT_EQ(Float8e5m2::decode(0x7b), 57344);
  EXPECT_EQ(Float8e5m2::decode(0x7c), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Float8e5m2::decode(0xff)));
}

template <typename Format>
void expect_round_trip() {
  for (uint32_t bits = 0; bits <= std::numeric_limits<typename Format::Bits>::max(); ++bits) {
    const auto narrow = static_cast<typename Format::Bits>(bits);
    const double number = Format::decode(narrow);
    const uint64_t exponent = (bits >> static_cast<unsigned>(std::lround(std::log2(Format::kMantissaMask + 1.0)))) & Format::kMaxExponent;
    if (!std::isfinite(number) || (exponent == 0 && number != 0)) continue;
    EXPECT_EQ(Format::encode(number), narrow) << bits;
  }
}

TEST(Element, EncodesWhatItDecodes) {
  expect_round_trip<Half>();
  expect_round_trip<Bfloat16>();
  expect_round_trip<Float8e4m3>();
  expect_round_trip<Float8e5m2>();
}

TEST(Element, NamesAreUnique) {
  for (int type = 0; type < ncclNumTypes; ++type) {
    EXPECT_EQ(type_named(name_of(static_cast<ncclDataType_t>(type))), static_cast<ncclDataType_t>(type));
  }
  for (Op op : kOps) EXPECT_EQ(op_named(name_of(op)), op);
  EXPECT_FALSE(op_named("none"));
  EXPECT_FALSE(type_named(""));
}

/// Reduces in a random order, keeping every partial result in the type, the way any algorithm might.
template <typename Format>
double reduce_in_random_order(const Recipe& recipe, size_t index, std::mt19937& random) {
  std::vector<double> partials;
  for (int rank = 0; rank < recipe.ranks; ++rank) {
    typename Format::Bits bits;
    generate(recipe, rank, index, 1, &bits);
    partials.push_back(Format::decode(bits) * (recipe.op == Op::mulsum ? premul_scalar(rank) : 1));
  }
  while (partials.size() > 1) {
    std::shuffle(partials.begin(), partials.end(), random);
    const double a = partials.back();
    partials.pop_back();
    double& b = partials.back();
    b = recipe.op == Op::prod ? a * b : recipe.op == Op::max ? std::max(a, b) : recipe.op == Op::min ? std::min(a, b) : a + b;
    EXPECT_EQ(Format::decode(Format::encode(b)), b) << "a partial result is not exact";
  }
  return partials[0];
}

template <typename Format>
void expect_order_independent(ncclDataType_t type) {
  std::mt19937 random(7);
  for (Op op : {Op::sum, Op::prod, Op::max, Op::min, Op::mulsum}) {
    for (int ranks : kRankCounts) {
      const Recipe recipe = {.type = type, .op = op, .seed = 3, .ranks = ranks};
      std::vector<typename Format::Bits> results(kElements);
      for (size_t at = 0; at < kElements; ++at) results[at] = Format::encode(reduce_in_random_order<Format>(recipe, 1000 + at, random));
      EXPECT_EQ(count_wrong(recipe, 1000, kElements, results.data()), 0U) << name_of(type) << " " << name_of(op) << " " << ranks;
      auto* bytes = reinterpret_cast<unsigned char*>(results.data());
      bytes[5 * sizeof(results[0])] ^= 1;  // the smallest possible mistake
      EXPECT_EQ(count_wrong(recipe, 1000, kElements, results.data()), 1U) << name_of(type) << " " << name_of(op) << " " << ranks;
    }
  }
}

TEST(Generator, FloatsReduceExactlyInAnyOrder) {
  expect_order_independent<Half>(ncclFloat16);
  expect_order_independent<Bfloat16>(ncclBfloat16);
  expect_order_independent<Float8e4m3>(ncclFloat8e4m3);
  expect_order_independent<Float8e5m2>(ncclFloat8e5m2);
  expect_order_independent<Single>(ncclFloat32);
  expect_order_independent<Double>(ncclFloat64);
}

TEST(Generator, FloatAverageToleratesTwoUnitsInTheLastPlace) {
  const Recipe recipe = {.type = ncclFloat32, .op = Op::avg, .seed = 1, .ranks = 3};
  float averages[kElements];
  for (size_t at = 0; at < kElements; ++at) {
    float sum = 0;
    for (int rank = 0; rank < 3; ++rank) {
      float value;
      generate(recipe, rank, at, 1, &value);
      sum += value;
    }
    averages[at] = sum / 3;
  }
  EXPECT_EQ(count_wrong(recipe, 0, kElements, averages), 0U);
  for (float& average : averages) average = std::nextafter(average, 1e30F);
  EXPECT_EQ(count_wrong(recipe, 0, kElements, averages), 0U);
  for (float& average : averages) average = average == 0 ? 1 : average * 1.00001F;
  EXPECT_EQ(count_wrong(recipe, 0, kElements, averages), kElements);
}

template <typename T>
T reduce_integers(const Recipe& recipe, size_t index) {
  T result = 0;
  for (int rank = recipe.ranks - 1; rank >= 0; --rank) {  // not the generator's order
    T value;
    generate(recipe, rank, index, 1, &value);
    const auto a = static_cast<uint64_t>(result);
    const auto b = static_cast<uint64_t>(value) * (recipe.op == Op::mulsum ? static_cast<uint64_t>(premul_scalar(rank)) : 1);
    if (rank == recipe.ranks - 1) {
      result = static_cast<T>(b);
    } else if (recipe.op == Op::prod) {
      result = static_cast<T>(a * b);
    } else if (recipe.op == Op::max || recipe.op == Op::min) {
      result = recipe.op == Op::max ? std::max(result, value) : std::min(result, value);
    } else {
      result = static_cast<T>(a + b);
    }
  }
  return recipe.op == Op::avg ? static_cast<T>(result / static_cast<T>(recipe.ranks)) : result;
}

template <typename T>
void expect_integers(ncclDataType_t type) {
  for (Op op : kOps) {
    for (int ranks : kRankCounts) {
      const Recipe recipe = {.type = type, .op = op, .seed = 9, .ranks = ranks};
      std::vector<T> results(kElements);
      for (size_t at = 0; at < kElements; ++at) results[at] = reduce_integers<T>(recipe, at);
      EXPECT_EQ(count_wrong(recipe, 0, kElements, results.data()), 0U) << name_of(type) << " " << name_of(op) << " " << ranks;
      results[kElements - 1] = static_cast<T>(results[kElements - 1] + 1);
      EXPECT_EQ(count_wrong(recipe, 0, kElements, results.data()), 1U);
    }
  }
}

TEST(Generator, IntegersWrapAndAverageTowardZero) {
  expect_integers<int8_t>(ncclInt8);
  expect_integers<uint8_t>(ncclUint8);
  expect_integers<int32_t>(ncclInt32);
  expect_integers<uint32_t>(ncclUint32);
  expect_integers<int64_t>(ncclInt64);
  expect_integers<uint64_t>(ncclUint64);
}

TEST(Generator, ContributionsDifferByRankSeedAndPlace) {
  for (int type = 0; type < ncclNumTypes; ++type) {
    const Recipe recipe = {.type = static_cast<ncclDataType_t>(type), .op = Op::sum, .seed = 1, .ranks = 2};
    std::vector<std::byte> data(kElements * bytes_of(recipe.type));
    generate(recipe, 0, 0, kElements, data.data());
    EXPECT_EQ(count_changed(recipe, 0, 0, kElements, data.data()), 0U);
    Recipe other = recipe;
    other.seed = 2;
    // Small types have few values, so many elements agree by chance; most must not.
    EXPECT_GT(count_changed(recipe, 1, 0, kElements, data.data()), kElements / 2) << name_of(recipe.type);
    EXPECT_GT(count_changed(recipe, 0, 1, kElements, data.data()), kElements / 2) << name_of(recipe.type);
    EXPECT_GT(count_changed(other, 0, 0, kElements, data.data()), kElements / 2) << name_of(recipe.type);
  }
}

TEST(Generator, MovedDataFollowsFromTheIndexAlone) {
  const Recipe recipe = {.type = ncclFloat16, .op = Op::none, .seed = 4, .ranks = 5};
  uint16_t data[kElements];
  generate(recipe, 3, 50, kElements, data);
  EXPECT_EQ(count_wrong(recipe, 50, kElements, data), 0U);
  EXPECT_GT(count_wrong(recipe, 51, kElements, data), kElements - 5);
}

TEST(Generator, LongBuffersHoldDifferentDataAtEveryOffset) {
  constexpr size_t kLong = 600'000;
  constexpr size_t kPeriod = 131071;
  const Recipe recipe = {.type = ncclFloat32, .op = Op::sum, .seed = 4, .ranks = 2};
  std::vector<float> data(kLong);
  generate(recipe, 1, 10, kLong, data.data());
  EXPECT_EQ(count_changed(recipe, 1, 10, kLong, data.data()), 0U);
  for (size_t part : {size_t{0}, size_t{77}, kPeriod - 11, 3 * kPeriod}) {  // pieces are the same whether made long or short
    EXPECT_EQ(count_changed(recipe, 1, 10 + part, 1000, &data[part]), 0U);
  }
  for (size_t offset : {size_t{1}, size_t{65536}, kPeriod, 2 * kPeriod, kPeriod * 4 - 1}) {
    EXPECT_GT(count_changed(recipe, 1, 10 + offset, kLong, data.data()), kLong * 9 / 10) << offset;
  }
  data[400'000] += 1;
  EXPECT_EQ(count_changed(recipe, 1, 10, kLong, data.data()), 1U);

  std::vector<float> other(kLong);
  generate(recipe, 1, 10, kLong, data.data());
  generate(recipe, 0, 10, kLong, other.data());
  for (size_t at = 0; at < kLong; ++at) data[at] += other[at];
  EXPECT_EQ(count_wrong(recipe, 10, kLong, data.data()), 0U);
  data[599'999] += 1;
  EXPECT_EQ(count_wrong(recipe, 10, kLong, data.data()), 1U);
}

template <typename Format>
void expect_gaussian(ncclDataType_t type) {
  constexpr size_t kMany = 100'000;
  const Recipe recipe = {.type = type, .op = Op::sum, .seed = 2, .ranks = 2, .data = Data::gaussian};
  std::vector<typename Format::Bits> own(kMany), other(kMany);
  generate(recipe, 0, 0, kMany, own.data());
  generate(recipe, 1, 0, kMany, other.data());
  double mean = 0, square = 0, fourth = 0, product = 0;
  for (size_t at = 0; at < kMany; ++at) {
    const double a = Format::decode(own[at]);
    ASSERT_TRUE(std::isfinite(a));
    mean += a / kMany;
    square += a * a / kMany;
    fourth += a * a * a * a / kMany;
    product += a * Format::decode(other[at]) / kMany;
  }
  EXPECT_NEAR(mean, 0, 0.02) << name_of(type);
  EXPECT_NEAR(square, 1, 0.03) << name_of(type);
  EXPECT_NEAR(fourth, 3, 0.2) << name_of(type);
  EXPECT_NEAR(product, 0, 0.02) << name_of(type) << ": ranks are independent";
  EXPECT_EQ(count_changed(recipe, 0, 0, kMany, own.data()), 0U);
}

TEST(Generator, GaussianElements) {
  expect_gaussian<Half>(ncclFloat16);
  expect_gaussian<Bfloat16>(ncclBfloat16);
  expect_gaussian<Single>(ncclFloat32);
}

TEST(Generator, DeviationIsTakenFromTheExactResult) {
  for (const size_t count : {size_t{1000}, size_t{400'000}}) {
    for (const Op op : {Op::sum, Op::avg, Op::mulsum}) {
      for (const Data data : {Data::usual, Data::gaussian}) {
        const Recipe recipe = {.type = ncclFloat32, .op = op, .seed = 5, .ranks = 3, .data = data};
        std::vector<float> result(count), one(count);
        for (int rank = 0; rank < 3; ++rank) {
          generate(recipe, rank, 77, count, one.data());
          const float factor = op == Op::mulsum ? static_cast<float>(premul_scalar(rank)) : op == Op::avg ? 1 / 3.0F : 1;
          for (size_t at = 0; at < count; ++at) result[at] += factor * one[at];
        }
        EXPECT_LT(deviation(recipe, 77, count, result.data()).nmse(), 1e-13);
        for (float& element : result) element *= 1.25F;
        EXPECT_NEAR(deviation(recipe, 77, count, result.data()).nmse(), 1.0 / 16, 1e-6);
        EXPECT_GT(deviation(recipe, 78, count, result.data()).nmse(), 1);
      }
    }
  }
}

TEST(Generator, DeviationOfNothingAndOfNaN) {
  const Recipe recipe = {.type = ncclFloat32, .op = Op::sum, .seed = 5, .ranks = 2, .data = Data::gaussian};
  EXPECT_EQ(deviation(recipe, 0, 0, nullptr).nmse(), 0);
  const float wrong[2] = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(deviation(recipe, 0, 2, wrong).nmse()));
  EXPECT_EQ((Deviation{.error = 1, .energy = 0}.nmse()), HUGE_VAL);
}

TEST(Generator, PremulScalarsAreOneAndTwo) {
  float single = 0;
  encode_premul_scalar(ncclFloat32, 1, &single);
  EXPECT_EQ(single, 2);
  uint8_t small = 0;
  encode_premul_scalar(ncclFloat8e5m2, 4, &small);
  EXPECT_EQ(Float8e5m2::decode(small), 1);
  int64_t whole = 0;
  encode_premul_scalar(ncclInt64, 7, &whole);
  EXPECT_EQ(whole, 2);
}

}  // namespace
}  // namespace sweep
