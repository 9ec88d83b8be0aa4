// SPDX-License-Identifier: Apache-2.0
// Rotation, quantisation and sums as plain loops. Nothing can fail.
#include "rotated.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/rng.h"

namespace isthmus::thc {
namespace {

double rms(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// The orthonormal Hadamard transform: its own inverse.
void transform(std::span<float> data) {
  for (size_t half = 1; half < data.size(); half *= 2) {
    for (size_t block = 0; block < data.size(); block += 2 * half) {
      for (size_t i = block; i < block + half; ++i) {
        const float a = data[i], b = data[i + half];
        data[i] = a + b;
        data[i + half] = a - b;
      }
    }
  }
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(data.size())));
  for (float& value : data) value *= factor;
}

/// The table value that a coordinate in table units becomes.
uint32_t quantised(double u, const codec::Thc& thc, bool to_nearest, CounterRng& rng) {
  const double bounded = std::clamp(u, 0.0, static_cast<double>(thc.config.granularity));
  uint32_t k = 0;
  while (k + 2 < thc.levels() && bounded >= thc.table[k + 1]) ++k;
  const double share = (bounded - thc.table[k]) / (thc.table[k + 1] - thc.table[k]);
  return thc.table[share > (to_nearest ? 0.5 : rng.uniform()) ? k + 1 : k];
}

}  // namespace

std::vector<float> rotated_average(const Vectors& inputs, const Variant& variant) {
  const auto ranks = static_cast<uint32_t>(inputs.size());
  const size_t elements = inputs[0].size();
  const Ranks tables({.config = {.granularity = 30, .overflow = 1.0 / 32}}, ranks);
  const codec::Thc& thc = tables.thc();
  std::vector<float> signs(elements), work(variant.group), result(elements);
  CounterRng coin(42, 1);
  for (float& sign : signs) sign = coin.chance(0.5) ? 1 : -1;
  double one_scale = 0;
  for (const auto& input : inputs) one_scale = std::max(one_scale, rms(input));
  std::vector<CounterRng> dither;
  for (uint32_t rank = 0; rank < ranks; ++rank) dither.emplace_back(42, 100 + rank);
  for (size_t first = 0; first < elements; first += variant.group) {
    double scale = variant.one_scale ? one_scale : 0;
    for (const auto& input : inputs) scale = std::max(scale, variant.one_scale ? 0 : rms(std::span(input).subspan(first, variant.group)));
    std::vector<uint32_t> sum(variant.group, 0);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < variant.group; ++i) work[i] = inputs[rank][first + i] * signs[first + i];
      transform(work);
      for (size_t i = 0; i < variant.group; ++i) {
        const double u = (double{work[i]} / scale / thc.clamp + 1) * thc.config.granularity / 2;
        sum[i] += quantised(u, thc, variant.to_nearest, dither[rank]);
      }
    }
    for (size_t i = 0; i < variant.group; ++i) {
      const double level = 2.0 * sum[i] / (static_cast<double>(ranks) * thc.config.granularity) - 1;
      work[i] = static_cast<float>(level * thc.clamp * scale);
    }
    transform(work);
    for (size_t i = 0; i < variant.group; ++i) result[first + i] = work[i] * signs[first + i];
  }
  return result;
}

}  // namespace isthmus::thc
