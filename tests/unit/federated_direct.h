// SPDX-License-Identifier: Apache-2.0
// What an aggregator's ranks must end with, computed by the kernels alone, one group after the other: own scales, the largest, indices,
// their sum, decoding. For the tests of the federated room; shares nothing with it but the kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "codec/thc.h"
#include "kernels/reduce.h"

namespace isthmus::testing {

inline std::vector<float> random_vector(size_t count, uint64_t stream) {
  CounterRng rng(11, stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform() + rng.uniform() - rng.uniform() - rng.uniform());
  return values;
}

struct Direct {
  const codec::Thc& thc;
  uint64_t seed;
  uint64_t round;
  uint32_t chunk_elements;
  bool average = false;
  DataType type = DataType::float32;
  float fixed_scale = 0;  ///< above 0: instead of the largest of the measured ranks', that of elements which are no padding

  using Bytes = std::vector<std::byte>;

  /// `inputs` by rank, as bytes of `type`. The common scales are those of `measured` ranks, the sum that of `added` ones.
  [[nodiscard]] Bytes result(const std::vector<Bytes>& inputs, const std::vector<uint32_t>& measured,
                             const std::vector<uint32_t>& added) const {
    Bytes out(inputs[0].size());
    const size_t count = out.size() / size_of(type);
    for (size_t first = 0; first < count; first += chunk_elements) {
      const size_t elements = std::min<size_t>(chunk_elements, count - first);
      for (uint64_t at = 0; at < thc.groups(elements); ++at) group(inputs, measured, added, first, elements, thc.group(elements, at), out);
    }
    return out;
  }

 private:
  void group(const std::vector<Bytes>& inputs, const std::vector<uint32_t>& measured, const std::vector<uint32_t>& added, size_t first,
             size_t elements, const codec::Piece& piece, Bytes& out) const {
    alignas(64) float work[codec::kMaxGroup];
    const kernels::Target& target = *kernels::available_targets().front();
    const size_t byte = (first + piece.begin) * size_of(type);
    const size_t count = piece.stride > 1 ? piece.elements : std::min<size_t>(piece.elements, elements - piece.begin);
    const kernels::ThcPlace place = {.position = first + piece.first, .elements = piece.elements};
    const auto input = [&](uint32_t rank) {
      return kernels::CodecInput{.data = inputs[rank].data() + byte, .type = type, .stride = piece.stride, .count = count};
    };
    const auto key = [&](uint32_t rank) { return kernels::CodecKey{.seed = seed, .op = round, .rank = rank, .ranks = thc.ranks}; };
    uint32_t largest = 0;
    for (const uint32_t rank : measured) {
      largest = std::max(largest, std::bit_cast<uint32_t>(kernels::thc_measure(target, input(rank), piece.elements, work)));
    }
    const double share = static_cast<double>(count) / piece.elements;
    const auto scale = fixed_scale > 0 ? static_cast<float>(fixed_scale * std::sqrt(share)) : std::bit_cast<float>(largest);
    const uint32_t room = std::max(2U, thc.ranks);
    std::vector<uint8_t> sum(piece.elements / 8 * thc.width(room)), indices(piece.elements / 8 * thc.width(1));
    for (const uint32_t rank : added) {
      const float own = kernels::thc_measure(target, input(rank), piece.elements, work);
      kernels::thc_encode(target, indices.data(), 1, input(rank), nullptr, thc, key(rank), place, {.own = own, .joined = scale}, work);
      target.thc.accumulate(sum.data(), room, sum.data(), room, indices.data(), 1, piece.elements / codec::kUnitElements, thc);
    }
    const auto summands = static_cast<uint32_t>(added.size());
    const kernels::CodecOutput to = {.data = out.data() + byte, .type = type, .stride = piece.stride, .count = count};
    kernels::thc_decode(target, to, sum.data(), room, summands, average ? 1 : summands, thc, key(0), place, scale, work);
  }
};

/// Floats as bytes of a type.
inline std::vector<std::byte> as_type(const std::vector<float>& values, DataType type) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* to = bytes.data() + i * size_of(type);
    if (type == DataType::float32) {
      std::memcpy(to, &values[i], 4);
    } else {
      const uint16_t bits = type == DataType::float16 ? Float16::from_float(values[i]).bits : BFloat16::from_float(values[i]).bits;
      std::memcpy(to, &bits, 2);
    }
  }
  return bytes;
}

}  // namespace isthmus::testing
