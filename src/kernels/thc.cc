// SPDX-License-Identifier: Apache-2.0
// What happens once per group, in double precision and the same for every target: scales, factors, zero and not-a-number groups.
// Called by exec/ and tests; the loops over elements are the targets'. Nothing can fail.
#include "kernels/thc.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/targets.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::kernels {
namespace {

constexpr uint32_t kNotFinite = 0x7fc00000;  // greater than every finite scale, also as an integer

/// A power of two near 1 / scale: what is rotated is near one, so nothing overflows or vanishes on the way.
float normaliser(float scale) {
  const uint32_t exponent = std::bit_cast<uint32_t>(scale) >> 23;
  return std::bit_cast<float>((exponent < 1 ? 253U : exponent > 253 ? 1U : 254U - exponent) << 23);
}

/// Where this rank's dither is among the strata of this group: a permutation of the ranks, by the order of one random number each.
uint32_t stratum(const CodecKey& key, const ThcPlace& place) {
  const auto group = static_cast<uint32_t>(place.position / codec::kUnitElements);
  const auto number = [&](uint32_t rank) {
    return philox(key.seed, group, low_counter(key.op), rank / 4, stream_counter(Stream::strata, key.op));
  };
  const uint32_t mine = number(key.rank).word[key.rank % 4];
  uint32_t before = 0;
  for (uint32_t rank = 0; rank < key.ranks; rank += 4) {
    const PhiloxBlock block = number(rank);
    for (uint32_t i = 0; i < 4 && rank + i < key.ranks; ++i) {
      before += block.word[i] < mine || (block.word[i] == mine && rank + i < key.rank) ? 1 : 0;
    }
  }
  return before * 256 / key.ranks;
}

/// c for own / common scale, between table entries.
double prescale_of(const codec::Thc& thc, float own_scale, float scale) {
  const double at = double{own_scale} / double{scale} * codec::Thc::kPrescaleSteps;
  const auto below = static_cast<uint32_t>(at < codec::Thc::kPrescaleSteps - 1 ? at : codec::Thc::kPrescaleSteps - 1);
  const double low = thc.prescale[below], high = thc.prescale[below + 1];
  return low + (high - low) * (at - below);
}

ThcQuantiser quantiser(const codec::Thc& thc, const CodecKey& key, const ThcPlace& place, float own_scale, float scale) {
  const double granularity = thc.config.granularity;
  const double unit = granularity * 128 / thc.clamp / std::sqrt(static_cast<double>(place.elements));
  const double factor = unit * prescale_of(thc, own_scale, scale) / (double{normaliser(own_scale)} * double{scale});
  const bool common = thc.config.correlated && key.ranks > 1;
  return {.factor = static_cast<float>(factor),
          .middle = static_cast<float>(granularity * 128),
          .top = static_cast<float>(granularity * 256),
          .stratum = static_cast<uint8_t>(common ? stratum(key, place) : 0),
          .counter = {low_counter(key.op), common ? 0 : key.rank,
                      stream_counter(common ? Stream::common_dither : Stream::private_dither, key.op)}};
}

/// From 2 S - m g to the average (or sum) of rotated coordinates, and the transform's own factor.
float decode_factor(const codec::Thc& thc, uint32_t elements, float scale, uint32_t summands, uint32_t multiplier) {
  const double unit = thc.clamp / thc.config.granularity / std::sqrt(static_cast<double>(elements));
  return static_cast<float>(double{scale} * unit * multiplier / summands);
}

bool is_nan(float scale) { return std::bit_cast<uint32_t>(scale) > 0x7f800000U; }

/// What the encoding of (in + residual) does not hold of it.
void keep_residual(const Target& target, float* residual, const uint8_t* src, uint32_t room, const CodecInput& in, const codec::Thc& thc,
                   const CodecKey& key, const ThcPlace& place, float scale, float* work) {
  const CodecOutput out = {.data = residual, .type = DataType::float32, .stride = in.stride, .count = in.count};
  alignas(64) float decoded[codec::kMaxGroup];
  target.thc.levels(decoded, src, room, 1, place.elements, thc);
  target.thc.unrotate(decoded, key, place, decode_factor(thc, place.elements, scale, 1, 1));
  target.thc.load(work, in, place.elements);
  for (uint32_t i = 0; i < place.elements; ++i) work[i] = work[i] - decoded[i];
  target.thc.store(out, work);
}

/// The input's elements: where they are, or loaded into `work`.
const float* elements_of(const Target& target, const CodecInput& in, uint32_t elements, float* work) {
  const auto* from = static_cast<const float*>(in.data);
  const bool direct = in.type == DataType::float32 && in.stride == 1 && in.count == elements && in.residual == nullptr;
  if (direct && reinterpret_cast<uintptr_t>(from) % alignof(float) == 0) return from;
  target.thc.load(work, in, elements);
  return work;
}

float own_scale_of(const Target& target, const float* from, uint32_t elements) {
  double sum = double{target.thc.squares(from, elements)};
  if (!(sum > 1e-20 && sum < 1e30)) {  // squares may have vanished or overflowed, or there is no number at all
    sum = 0;
    for (uint32_t i = 0; i < elements; ++i) sum += double{from[i]} * double{from[i]};
  }
  const auto scale = static_cast<float>(std::sqrt(sum / elements));
  return std::isfinite(scale) ? scale : std::bit_cast<float>(kNotFinite);
}

}  // namespace

float thc_measure(const Target& target, const CodecInput& in, uint32_t elements, float* work) {
  return own_scale_of(target, elements_of(target, in, elements, work), elements);
}

void thc_encode(const Target& target, void* dst, uint32_t room, const CodecInput& in, float* residual, const codec::Thc& thc,
                const CodecKey& key, const ThcPlace& place, float scale, float* work) {
  auto* to = static_cast<uint8_t*>(dst);
  const size_t bytes = size_t{place.elements} / 8 * thc.width(room);
  if (is_nan(scale) || scale == 0) {
    std::memset(to, 0, bytes);
    // Nothing is lost of zeros, and nothing can make up for what is no number.
    for (size_t i = 0; residual != nullptr && i < in.count; ++i) residual[i * in.stride] = 0;
    return;
  }
  const float* from = elements_of(target, in, place.elements, work);
  const float own_scale = own_scale_of(target, from, place.elements);
  target.thc.rotate(work, from, key, place, normaliser(own_scale));
  target.thc.quantise(to, room, work, thc, key, place, quantiser(thc, key, place, own_scale, scale));
  if (residual != nullptr) keep_residual(target, residual, to, room, in, thc, key, place, scale, work);
}

void thc_decode(const Target& target, const CodecOutput& out, const void* src, uint32_t room, uint32_t summands, uint32_t multiplier,
                const codec::Thc& thc, const CodecKey& key, const ThcPlace& place, float scale, float* work) {
  if (is_nan(scale) || scale == 0) {
    for (uint32_t i = 0; i < place.elements; ++i) work[i] = scale;
    return target.thc.store(out, work);
  }
  auto* direct = static_cast<float*>(out.data);
  const bool whole = out.type == DataType::float32 && out.stride == 1 && out.count == place.elements &&
                     reinterpret_cast<uintptr_t>(direct) % alignof(float) == 0;
  target.thc.decode(whole ? direct : work, work, static_cast<const uint8_t*>(src), room, summands, thc, key, place,
                    decode_factor(thc, place.elements, scale, summands, multiplier), whole && out.past_caches);
  if (!whole) target.thc.store(out, work);
}

}  // namespace isthmus::kernels
