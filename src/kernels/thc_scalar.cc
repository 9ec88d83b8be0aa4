// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's scalar kernels: plain loops over thc_arithmetic.h that define every result. Called through the scalar
// table, and by vector kernels for what they have no vectors for (strides, other types, tails). Nothing can fail.
#include <cstring>

#include "kernels/float_environment.h"
#include "kernels/targets.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::kernels::scalar {
namespace {

template <typename T>
void load_as(float* to, const CodecInput& in) {
  const auto* from = static_cast<const std::byte*>(in.data);
  for (size_t i = 0; i < in.count; ++i) {
    T value;
    std::memcpy(&value, from + i * in.stride * sizeof(T), sizeof(T));
    if constexpr (kIsMinifloat<T>) {
      to[i] = value.to_float();
    } else {
      to[i] = value;
    }
  }
}

template <typename T>
void store_as(const CodecOutput& out, const float* from) {
  auto* to = static_cast<std::byte*>(out.data);
  for (size_t i = 0; i < out.count; ++i) {
    T value;
    if constexpr (kIsMinifloat<T>) {
      value = T::from_float(from[i]);
    } else {
      value = from[i];
    }
    std::memcpy(to + i * out.stride * sizeof(T), &value, sizeof(T));
  }
}

void flip_signs(float* data, const CodecKey& key, const ThcPlace& place) {
  const uint32_t counter[3] = {low_counter(key.op), 0, stream_counter(Stream::signs, key.op)};
  uint32_t words[kTileWords];
  for (uint32_t i = 0; i < place.elements; i += 32) {
    const uint64_t position = place.position + i;
    if (i == 0 || position % kSignTile == 0) philox_tile(words, key.seed, position / kSignTile, counter);
    for (uint32_t j = i; j < i + 32; ++j) data[j] = flip(data[j], words[sign_word(position)], place.position + j);
  }
}

/// 64 table values that were added, in storage order.
void read_unit(uint16_t* values, const uint8_t* src, uint32_t room, const codec::Thc& thc) {
  unpack_unit(values, src, thc.width(room));
  if (room > 1) return;
  for (uint32_t i = 0; i < codec::kUnitElements; ++i) values[i] = thc.table[values[i]];
}

}  // namespace

void load(float* to, const CodecInput& in, uint32_t elements) {
  const DefaultFloatEnvironment environment(true);
  if (in.type == DataType::float32) load_as<float>(to, in);
  if (in.type == DataType::float16) load_as<Float16>(to, in);
  if (in.type == DataType::bfloat16) load_as<BFloat16>(to, in);
  if (in.residual != nullptr) {
    for (size_t i = 0; i < in.count; ++i) to[i] = to[i] + in.residual[i * in.stride];
  }
  for (size_t i = in.count; i < elements; ++i) to[i] = 0;
}

void store(const CodecOutput& out, const float* from) {
  if (out.type == DataType::float32) store_as<float>(out, from);
  if (out.type == DataType::float16) store_as<Float16>(out, from);
  if (out.type == DataType::bfloat16) store_as<BFloat16>(out, from);
}

float squares(const float* from, uint32_t elements) {
  const DefaultFloatEnvironment environment(true);
  return sum_of_squares(from, elements);
}

void rotate(float* to, const float* from, const CodecKey& key, const ThcPlace& place, float factor) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < place.elements; ++i) to[i] = from[i] * factor;
  flip_signs(to, key, place);
  hadamard(to, place.elements);
}

void unrotate(float* data, const CodecKey& key, const ThcPlace& place, float factor) {
  const DefaultFloatEnvironment environment(true);
  hadamard(data, place.elements);
  for (uint32_t i = 0; i < place.elements; ++i) data[i] = data[i] * factor;
  flip_signs(data, key, place);
}

namespace {

/// `from`: coordinates in fixed point.
void quantise(uint8_t* dst, uint32_t room, const float* from, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
              const ThcQuantiser& q) {
  uint16_t values[codec::kUnitElements];
  uint32_t words[kTileWords];
  for (uint32_t unit = 0; unit < place.elements; unit += codec::kUnitElements) {
    const uint64_t position = place.position + unit;
    if (unit == 0 || position % kDitherTile == 0) philox_tile(words, key.seed, position / kDitherTile, q.counter);
    for (uint32_t at = 0; at < codec::kUnitElements; ++at) {
      const uint32_t u = coordinate(from[unit + element_at(at)], q.shift, q.middle);
      const uint32_t dither = dither_of(words[dither_word(position, at / 4)], at, q.stratum);
      const uint32_t index = quantise_one(u, dither, thc.table.data(), thc.gap.data(), thc.levels());
      values[at] = static_cast<uint16_t>(room > 1 ? thc.table[index] : index);
    }
    pack_unit(dst, values, thc.width(room));
    dst += codec::kUnitElements / 8 * thc.width(room);
  }
}

}  // namespace

void encode(uint8_t* dst, uint32_t room, const float* from, float* work, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
            const ThcQuantiser& q, const void* /*next*/) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < place.elements; ++i) work[i] = from[i] * q.normaliser;
  flip_signs(work, key, place);
  hadamard_to_fixed_point(work, place.elements, q.factor);
  quantise(dst, room, work, thc, key, place, q);
}

void accumulate(uint8_t* dst, uint32_t room, const uint8_t* a, uint32_t a_room, const uint8_t* b, uint32_t b_room, size_t units,
                const codec::Thc& thc) {
  uint16_t mine[codec::kUnitElements], other[codec::kUnitElements];
  for (size_t unit = 0; unit < units; ++unit) {
    read_unit(mine, a + unit * 8 * thc.width(a_room), a_room, thc);
    read_unit(other, b + unit * 8 * thc.width(b_room), b_room, thc);
    for (uint32_t i = 0; i < codec::kUnitElements; ++i) mine[i] = static_cast<uint16_t>(mine[i] + other[i]);
    pack_unit(dst + unit * 8 * thc.width(room), mine, thc.width(room));
  }
}

void levels(float* to, const uint8_t* src, uint32_t room, uint32_t summands, uint32_t elements, const codec::Thc& thc) {
  uint16_t values[codec::kUnitElements];
  const uint32_t middle = summands * thc.config.granularity;
  for (uint32_t unit = 0; unit < elements; unit += codec::kUnitElements) {
    read_unit(values, src, room, thc);
    src += codec::kUnitElements / 8 * thc.width(room);
    for (uint32_t at = 0; at < codec::kUnitElements; ++at) {
      to[unit + element_at(at)] = level_of(values[at], middle);
    }
  }
}

void decode(float* to, float* work, const uint8_t* src, uint32_t room, uint32_t summands, const codec::Thc& thc, const CodecKey& key,
            const ThcPlace& place, float factor, bool /*past_caches*/) {
  levels(work, src, room, summands, place.elements, thc);
  unrotate(work, key, place, factor);
  if (to != work) std::memcpy(to, work, place.elements * sizeof(float));
}

}  // namespace isthmus::kernels::scalar
