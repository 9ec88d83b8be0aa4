// SPDX-License-Identifier: Apache-2.0
// The narrow floats against their definition: every code's value is computed from sign, exponent and mantissa with ldexp in double,
// and every rounding against a search for the nearest of those values. Shares nothing with the integer arithmetic under test.
#include "base/float_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace isthmus {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
class FloatTypes : public ::testing::Test {
 public:
  static constexpr uint32_t kCodes = 1u << T::kBits;
  static T of(uint32_t code) { return T{static_cast<typename T::Storage>(code)}; }

  static bool is_nan(uint32_t code) {
    const uint32_t magnitude = code & T::kMagnitude;
    if (T::kOverflowRule == Overflow::saturate_no_inf) return magnitude == T::kMagnitude;
    return exponent(magnitude) == kTop && mantissa(magnitude) != 0;
  }
  static bool is_inf(uint32_t code) {
    const uint32_t magnitude = code & T::kMagnitude;
    return T::kOverflowRule != Overflow::saturate_no_inf && exponent(magnitude) == kTop && mantissa(magnitude) == 0;
  }
  /// The value by definition; `magnitude` is finite.
  static double value(uint32_t magnitude) {
    const int bias = (1 << (T::kExponentBits - 1)) - 1;
    const int e = static_cast<int>(exponent(magnitude));
    const double fraction = std::ldexp(static_cast<double>(mantissa(magnitude)), -T::kMantissaBits);
    return e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, e - bias);
  }

  FloatTypes() {
    for (uint32_t code = 0; code <= T::kMagnitude && !is_nan(code) && !is_inf(code); ++code) values_.push_back(value(code));
  }
  /// The code that `x` must become, by looking for it among all values.
  [[nodiscard]] uint32_t nearest(float x) const {
    if (std::isnan(x)) return T::kBits == 8 ? 0x7f : (T::kMantissaBits == 10 ? 0x7e00 : 0x7fc0);
    const uint32_t sign = std::signbit(x) ? 1u << (T::kBits - 1) : 0;
    const double wanted = std::fabs(static_cast<double>(x));
    const auto last = static_cast<uint32_t>(values_.size() - 1);
    if (std::isinf(x)) return sign | (T::kOverflowRule == Overflow::saturate_no_inf ? last : last + 1);
    const double half_step = (values_[last] - values_[last - 1]) / 2;
    if (wanted >= values_[last] + half_step) return sign | (T::kOverflowRule == Overflow::infinity ? last + 1 : last);
    if (wanted >= values_[last]) return sign | last;
    const auto above = static_cast<uint32_t>(std::upper_bound(values_.begin(), values_.end(), wanted) - values_.begin());
    const double down = wanted - values_[above - 1], up = values_[above] - wanted;  // exact: neighbours are close
    if (down == up) return sign | (above % 2 == 0 ? above : above - 1);
    return sign | (down < up ? above - 1 : above);
  }
  void check(float x) const {
    ASSERT_EQ(T::from_float(x).bits, nearest(x)) << std::hexfloat << x;
    ASSERT_EQ(T::from_float(-x).bits, nearest(-x)) << std::hexfloat << -x;
  }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  static constexpr uint32_t kTop = (1u << T::kExponentBits) - 1;
  static uint32_t exponent(uint32_t magnitude) { return magnitude >> T::kMantissaBits; }
  static uint32_t mantissa(uint32_t magnitude) { return magnitude & ((1u << T::kMantissaBits) - 1); }
  std::vector<double> values_;
};

using Types = ::testing::Types<Float16, BFloat16, Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(FloatTypes, Types);

TYPED_TEST(FloatTypes, EveryCodeHasItsValueAndComesBack) {
  for (uint32_t code = 0; code < this->kCodes; ++code) {
    const float x = this->of(code).to_float();
    if (this->is_nan(code)) {
      ASSERT_TRUE(std::isnan(x)) << code;
      ASSERT_EQ(TypeParam::from_float(x).bits, this->nearest(kNan)) << code;
      continue;
    }
    const uint32_t magnitude = code & TypeParam::kMagnitude;
    const double expected = this->is_inf(code) ? static_cast<double>(kInf) : this->value(magnitude);
    ASSERT_EQ(std::fabs(static_cast<double>(x)), expected) << code;
    ASSERT_EQ(std::signbit(x), code != magnitude) << code;
    ASSERT_EQ(TypeParam::from_float(x).bits, code);
  }
}

TYPED_TEST(FloatTypes, BordersBetweenNeighboursRoundToNearestEven) {
  const auto& values = this->values();
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);  // exact in float32
    ASSERT_NO_FATAL_FAILURE(this->check(middle));
    ASSERT_NO_FATAL_FAILURE(this->check(std::nextafter(middle, 0.0F)));
    ASSERT_NO_FATAL_FAILURE(this->check(std::nextafter(middle, kInf)));
  }
}

TYPED_TEST(FloatTypes, TheTopAndTheBottom) {
  const auto max = static_cast<float>(this->values().back());
  const auto step = static_cast<float>(this->values().back() - this->values()[this->values().size() - 2]);
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float x : {max, std::nextafter(max, kInf), max + step / 2, std::nextafter(max + step / 2, 0.0F), max + step,
                        std::numeric_limits<float>::max(), kInf, 0.0F, least, std::numeric_limits<float>::min(), 3 * least}) {
    ASSERT_NO_FATAL_FAILURE(this->check(x));
  }
}

TYPED_TEST(FloatTypes, FloatsOfEveryExponent) {
  std::mt19937 random(1);
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (int i = 0; i < 4096; ++i) {
      ASSERT_NO_FATAL_FAILURE(this->check(std::bit_cast<float>((exponent << 23) | static_cast<uint32_t>(random() >> 9))));
    }
  }
}

// The numbers that users know, so that the reference above cannot be wrong in the same way.
TEST(FloatTypes, KnownNumbers) {
  EXPECT_EQ(Float16::from_float(1.0F).bits, 0x3c00);
  EXPECT_EQ(Float16::from_float(65504.0F).bits, 0x7bff);
  EXPECT_EQ(Float16::from_float(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Float16::from_float(std::ldexp(1.0F, -24)).bits, 0x0001);
  EXPECT_EQ(Float16::from_float(std::ldexp(1.0F, -25)).bits, 0x0000);
  EXPECT_EQ(BFloat16::from_float(1.0F).bits, 0x3f80);
  EXPECT_EQ(BFloat16::from_float(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(Float8E4M3::from_float(1.0F).bits, 0x38);
  EXPECT_EQ(Float8E4M3::from_float(448.0F).bits, 0x7e);
  EXPECT_EQ(Float8E4M3::from_float(1e9F).bits, 0x7e);
  EXPECT_EQ(Float8E4M3::from_float(-kInf).bits, 0xfe);
  EXPECT_EQ(Float8E4M3::from_float(std::ldexp(1.0F, -9)).bits, 0x01);
  EXPECT_EQ(Float8E5M2::from_float(1.0F).bits, 0x3c);
  EXPECT_EQ(Float8E5M2::from_float(57344.0F).bits, 0x7b);
  EXPECT_EQ(Float8E5M2::from_float(1e9F).bits, 0x7b);
  EXPECT_EQ(Float8E5M2::from_float(-kInf).bits, 0xfc);
}

TEST(FloatTypes, WorksAtCompileTime) {
  static_assert(Float16::from_float(0.5F).to_float() == 0.5F);
  static_assert(BFloat16::from_float(-3.0F).to_float() == -3.0F);
  static_assert(Float8E4M3::from_float(300.0F).to_float() == 288.0F);
  static_assert(Float8E5M2::from_float(0x1p-16F).to_float() == 0x1p-16F);
  static_assert(sizeof(Float16) == 2 && sizeof(Float8E4M3) == 1 && std::is_trivial_v<BFloat16>);
}

}  // namespace
}  // namespace isthmus
