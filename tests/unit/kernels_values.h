// SPDX-License-Identifier: Apache-2.0
// Operands for the kernel tests: as bit patterns, so that every type gets its nasty ones. Used by tests/unit/kernels_*_test.cc.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/types.h"

namespace isthmus::kernels {

inline constexpr DataType kAllTypes[] = {DataType::int8,    DataType::uint8,    DataType::int32,      DataType::uint32,
                                         DataType::int64,   DataType::uint64,   DataType::float16,    DataType::float32,
                                         DataType::float64, DataType::bfloat16, DataType::float8e4m3, DataType::float8e5m2};
inline constexpr ReduceOp kCombiningOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min};

/// The interesting patterns of a type: zeros, ones, extremes, subnormals, infinities, NaNs quiet and signalling, with both signs.
inline std::vector<uint64_t> special_patterns(DataType type) {
  const int bits = static_cast<int>(size_of(type)) * 8;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  std::vector<uint64_t> patterns;
  if (is_integer(type)) {
    patterns = {0, 1, 2, 3, 7, 100, sign - 1, sign - 2, sign / 2};
  } else {
    int mantissa = 0;
    switch (type) {
      case DataType::float16:
        mantissa = 10;
        break;
      case DataType::float32:
        mantissa = 23;
        break;
      case DataType::float64:
        mantissa = 52;
        break;
      case DataType::bfloat16:
        mantissa = 7;
        break;
      case DataType::float8e4m3:
        mantissa = 3;
        break;
      default:
        mantissa = 2;
        break;
    }
    const uint64_t unit = uint64_t{1} << mantissa;
    const uint64_t inf = sign - unit;  // e4m3 has none: there it is 256
    const uint64_t one = (((uint64_t{1} << (bits - 2 - mantissa)) - 1)) << mantissa;
    patterns = {0,          1,   2,       unit - 1, unit,           unit + 1,   one,     one + 1, one + unit,     inf - 1,  inf - 2,
                inf - unit, inf, inf + 1, sign - 1, inf + unit / 2, one - unit, one - 1, inf / 2, one + 2 * unit, unit * 3, one / 2};
  }
  const size_t positive = patterns.size();
  for (size_t i = 0; i < positive; ++i) {
    patterns.push_back(is_integer(type) ? ~patterns[i] : patterns[i] | sign);
  }
  return patterns;
}

/// `count` elements: half of them special, a quarter near one in magnitude (so that sums round), a quarter any bits.
class Values {
 public:
  Values(DataType type, uint32_t seed) : type_(type), patterns_(special_patterns(type)), random_(seed) {}

  uint64_t next() {
    const uint64_t bits = random_();
    switch (bits >> 62) {
      case 0:
        return random_();
      case 1:
        return is_integer(type_) ? bits % 200 : patterns_[6] + (bits & 0x3f);
      default:
        return patterns_[bits % patterns_.size()];
    }
  }
  void fill(void* out, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t pattern = next();  // little endian: the low bytes are the element
      std::memcpy(static_cast<char*>(out) + i * size_of(type_), &pattern, size_of(type_));
    }
  }

 private:
  DataType type_;
  std::vector<uint64_t> patterns_;
  std::mt19937_64 random_;
};

}  // namespace isthmus::kernels
