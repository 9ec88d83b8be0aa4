// SPDX-License-Identifier: Apache-2.0
// What is computed once per group: scales and factors, in double precision, and where a rank's dither lies among the others'. One
// definition for thc.cc and for device code; thc_arithmetic.h is its neighbour for elements. No containers; nothing here can fail.
// Must not be included by the objects that are compiled for one instruction set: these are ordinary inline functions.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/coding.h"
#include "kernels/thc.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::kernels {

/// What the arithmetic of a group reads of a codec::Thc, so that device code can have it elsewhere.
struct ThcNumbers {
  double clamp;
  uint32_t granularity;
  bool correlated;
  const float* prescale;  ///< Thc::kPrescaleSteps + 1 values
};

inline ThcNumbers numbers_of(const codec::Thc& thc) {
  return {.clamp = thc.clamp, .granularity = thc.config.granularity, .correlated = thc.config.correlated, .prescale = thc.prescale.data()};
}

ISTHMUS_HOST_DEVICE inline bool is_nan(float scale) { return __builtin_bit_cast(uint32_t, scale) > 0x7f800000U; }

/// Squares of float32 may have vanished or overflowed in their sum, or there is no number at all: it is added again in double.
ISTHMUS_HOST_DEVICE inline bool is_doubtful(float sum) { return !(double{sum} > 1e-20 && double{sum} < 1e30); }

/// The sum of squares again, one after the other; at(i) is the i-th element.
template <class At>
ISTHMUS_HOST_DEVICE double wide_sum_of_squares(const At& at, uint32_t elements) {
  double sum = 0;
  for (uint32_t i = 0; i < elements; ++i) {
    const double value = at(i);
    sum += value * value;
  }
  return sum;
}

/// The root of the mean square; 0x7fc00000 where that is not finite: greater than every finite scale, also as an integer.
ISTHMUS_HOST_DEVICE inline float scale_of(double sum, uint32_t elements) {
  const auto scale = static_cast<float>(std::sqrt(sum / elements));
  const bool finite = (__builtin_bit_cast(uint32_t, scale) & 0x7f800000U) != 0x7f800000U;
  return finite ? scale : __builtin_bit_cast(float, 0x7fc00000U);
}

/// What is rotated is multiplied by this power of two: 1 where the scale is so moderate that nothing overflows or vanishes on the way,
/// otherwise near 1 / scale.
ISTHMUS_HOST_DEVICE inline float normaliser(float scale) {
  if (scale > 0x1p-40F && scale < 0x1p40F) return 1;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, scale) >> 23;
  return __builtin_bit_cast(float, (exponent < 1 ? 253U : exponent > 253 ? 1U : 254U - exponent) << 23);
}

/// One random number for each of four ranks; a group's strata are a permutation of the ranks, by the order of these.
ISTHMUS_HOST_DEVICE inline PhiloxBlock strata_numbers(const CodecKey& key, const ThcPlace& place, uint32_t four) {
  const auto group = static_cast<uint32_t>(place.position / codec::kUnitElements);
  return philox(key.seed, group, low_counter(key.op), four, stream_counter(Stream::strata, key.op));
}

ISTHMUS_HOST_DEVICE inline uint32_t strata_number(const CodecKey& key, const ThcPlace& place) {
  return strata_numbers(key, place, key.rank / 4).word[key.rank % 4];
}

/// How many of ranks 4 four to 4 four + 3 come before this one, whose number is `mine`.
ISTHMUS_HOST_DEVICE inline uint32_t strata_before(const CodecKey& key, const ThcPlace& place, uint32_t mine, uint32_t four) {
  const PhiloxBlock block = strata_numbers(key, place, four);
  uint32_t before = 0;
  for (uint32_t i = 0; i < 4 && 4 * four + i < key.ranks; ++i) {
    before += block.word[i] < mine || (block.word[i] == mine && 4 * four + i < key.rank) ? 1 : 0;
  }
  return before;
}

/// Whether the ranks' dither is common but for their strata.
ISTHMUS_HOST_DEVICE inline bool has_strata(const ThcNumbers& thc, const CodecKey& key) { return thc.correlated && key.ranks > 1; }

/// c for own / common scale, between table entries.
ISTHMUS_HOST_DEVICE inline double prescale_of(const float* prescale, float own_scale, float scale) {
  const double at = double{own_scale} / double{scale} * codec::Thc::kPrescaleSteps;
  const auto below = static_cast<uint32_t>(at < codec::Thc::kPrescaleSteps - 1 ? at : codec::Thc::kPrescaleSteps - 1);
  const double low = prescale[below], high = prescale[below + 1];
  return low + (high - low) * (at - below);
}

/// The encoders' fixed point reaches so many times as far as a coordinate that is as large as the scale. A stage's coordinates are sums
/// with random signs, of squares that add up to at most the group's: one leaves the range with a probability of less than
/// 2 exp(-kFixedPointReach^2 / 2), 6e-7, however the elements are distributed.
inline constexpr double kFixedPointReach = 5.5;

/// How many bits it has beyond 256ths of a table unit, as many as that allows and as the middle has room; fewer if negative.
ISTHMUS_HOST_DEVICE inline int32_t fixed_point_shift(const ThcNumbers& thc) {
  double reach = kFixedPointReach * 128 * thc.granularity / thc.clamp * double{thc.prescale[codec::Thc::kPrescaleSteps]};
  uint32_t middle = 128 * thc.granularity;
  int32_t shift = 0;
  for (; reach > 32767; reach /= 2) --shift;
  for (; reach * 2 <= 32767 && middle * 2 <= 32767; reach *= 2, middle *= 2) ++shift;
  return shift;
}

/// `before`: how many ranks come before this one, all strata_before together; 0 without strata.
ISTHMUS_HOST_DEVICE inline ThcQuantiser quantiser(const ThcNumbers& thc, const CodecKey& key, uint32_t elements, uint32_t before,
                                                  float own_scale, float scale) {
  const double granularity = thc.granularity;
  const int32_t shift = fixed_point_shift(thc);
  const double fixed_point = shift < 0 ? 1.0 / (1 << -shift) : 1 << shift;
  const double unit = granularity * 128 * fixed_point / thc.clamp / std::sqrt(static_cast<double>(elements));
  const double factor = unit * prescale_of(thc.prescale, own_scale, scale) / (double{normaliser(own_scale)} * double{scale});
  const bool common = has_strata(thc, key);
  return {.normaliser = normaliser(own_scale),
          .factor = static_cast<float>(factor),
          .shift = shift,
          .middle = thc.granularity * 128,
          .stratum = static_cast<uint8_t>(common ? before * 256 / key.ranks : 0),
          .counter = {low_counter(key.op), common ? 0 : key.rank,
                      stream_counter(common ? Stream::common_dither : Stream::private_dither, key.op)}};
}

/// From 2 S - m g to the average (or sum) of rotated coordinates, and the transform's own factor.
ISTHMUS_HOST_DEVICE inline float decode_factor(const ThcNumbers& thc, uint32_t elements, float scale, uint32_t summands,
                                               uint32_t multiplier) {
  const double unit = thc.clamp / thc.granularity / std::sqrt(static_cast<double>(elements));
  return static_cast<float>(double{scale} * unit * multiplier / summands);
}

}  // namespace isthmus::kernels
