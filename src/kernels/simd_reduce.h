// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once: included by one source file per instruction set (target_*.cc), which is compiled with that
// set's flags and exports one table. Unnamed namespace and no library functions that are templates: such an object must leave nothing
// behind that the linker could pick for other callers. Results equal kernels/arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <cstring>

#include "kernels/float_environment.h"
#include "kernels/simd_lanes.h"
#include "kernels/targets.h"

HWY_BEFORE_NAMESPACE();
namespace isthmus::kernels::HWY_NAMESPACE {
namespace {

// --- operators on vectors ----------------------------------------------------------------------------------------------------

/// 8-bit products, which no instruction set has: the even and the odd bytes as 16-bit ones.
template <class V>
HWY_INLINE V multiply_bytes(V a, V b) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto a16 = hn::BitCast(d16, a), b16 = hn::BitCast(d16, b);
  const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, uint16_t{0xff}));
  const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
  return hn::BitCast(d, hn::Or(even, odd));
}

template <class V>
HWY_INLINE V multiply(V a, V b) {
  if constexpr (sizeof(hn::TFromV<V>) == 1) {
    return multiply_bytes(a, b);
  } else {
    return hn::Mul(a, b);
  }
}

/// Min of floats gives one of two equal or unordered operands by position. Joining both orders by OR puts -0 before +0 and keeps a
/// NaN a NaN.
template <class V>
HWY_INLINE V minimum(V a, V b) {
  if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
    return hn::Or(hn::Min(a, b), hn::Min(b, a));
  } else {
    return hn::Min(a, b);
  }
}

template <class V>
HWY_INLINE V maximum(V a, V b) {
  if constexpr (std::is_floating_point_v<hn::TFromV<V>>) {
    return hn::Neg(minimum(hn::Neg(a), hn::Neg(b)));
  } else {
    return hn::Max(a, b);
  }
}

template <ReduceOp kOp, class V>
HWY_INLINE V combine(V a, V b) {
  if constexpr (kOp == ReduceOp::sum) return hn::Add(a, b);
  if constexpr (kOp == ReduceOp::prod) return multiply(a, b);
  if constexpr (kOp == ReduceOp::max) return maximum(a, b);
  if constexpr (kOp == ReduceOp::min) return minimum(a, b);
}

// --- loops -------------------------------------------------------------------------------------------------------------------

/// If kSize <= bytes: two moves of kSize bytes, which overlap where they must.
template <size_t kSize, size_t kLimit>
HWY_INLINE bool copied_by(unsigned char* to, const unsigned char* from, size_t bytes) {
  if constexpr (kSize < kLimit) {
    if (bytes < kSize) return false;
    std::memcpy(to, from, kSize);
    std::memcpy(to + bytes - kSize, from + bytes - kSize, kSize);
    return true;
  } else {
    return false;
  }
}

/// 1 to kLimit - 1 bytes (kLimit is at most 64), without a call.
template <size_t kLimit>
HWY_INLINE void copy_short(unsigned char* to, const unsigned char* from, size_t bytes) {
  (void)(copied_by<32, kLimit>(to, from, bytes) || copied_by<16, kLimit>(to, from, bytes) || copied_by<8, kLimit>(to, from, bytes) ||
         copied_by<4, kLimit>(to, from, bytes) || copied_by<2, kLimit>(to, from, bytes) || copied_by<1, kLimit>(to, from, bytes));
}

/// dst = step(a, b), block by block; the last, partial block goes through memory of our own.
template <class Lanes, class Step>
HWY_INLINE void for_blocks(void* dst, const void* a, const void* b, size_t count, const Step& step) {
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from_a = static_cast<const unsigned char*>(a);
  const auto* from_b = static_cast<const unsigned char*>(b);
  const size_t bytes = count * sizeof(typename Lanes::Element);
  size_t at = 0;
  for (; at + Lanes::kBytes <= bytes; at += Lanes::kBytes) {
    Lanes::store(to + at, step(Lanes::load(from_a + at), Lanes::load(from_b + at)));
  }
  if (at == bytes) return;
  alignas(Lanes::kBytes) unsigned char rest_a[Lanes::kBytes] = {};
  alignas(Lanes::kBytes) unsigned char rest_b[Lanes::kBytes] = {};
  copy_short<Lanes::kBytes>(rest_a, from_a + at, bytes - at);
  copy_short<Lanes::kBytes>(rest_b, from_b + at, bytes - at);
  Lanes::store(rest_a, step(Lanes::load(rest_a), Lanes::load(rest_b)));
  copy_short<Lanes::kBytes>(to + at, rest_a, bytes - at);
}

/// ReduceMaps as vectors.
template <class Lanes>
class Maps {
 public:
  using Values = typename Lanes::Values;

  HWY_INLINE explicit Maps(const ReduceMaps& maps) : in_(maps.map_in), out_(maps.divisor > 1) {
    alignas(Lanes::kBytes) unsigned char bytes[Lanes::kBytes];
    constexpr size_t kSize = sizeof(typename Lanes::Element);
    for (size_t at = 0; at < Lanes::kBytes; at += kSize) std::memcpy(bytes + at, &maps.scalar, kSize);
    factor_ = Lanes::load(bytes).part[0];
    divisor_ = hn::Set(typename Lanes::D(), static_cast<typename Lanes::Compute>(maps.divisor));
  }

  HWY_INLINE void apply_in(Values& values) const {
    if (!in_) return;
    for (auto& part : values.part) part = multiply(part, factor_);
  }
  HWY_INLINE void apply_out([[maybe_unused]] Values& values) const {
    if constexpr (std::is_floating_point_v<typename Lanes::Compute>) {
      if (!out_) return;
      for (auto& part : values.part) part = hn::Div(part, divisor_);
    }
  }

 private:
  bool in_, out_;
  typename Lanes::V factor_, divisor_;
};

template <ReduceOp kOp, class Values>
HWY_INLINE void combine_into(Values& mine, const Values& other) {
  for (size_t i = 0; i < sizeof(mine.part) / sizeof(mine.part[0]); ++i) mine.part[i] = combine<kOp>(mine.part[i], other.part[i]);
}

template <class Lanes, DataType kType, ReduceOp kOp>
void reduce(void* dst, const void* a, const void* b, size_t count, const ReduceMaps& maps) {
  using Values = typename Lanes::Values;
  constexpr bool kInteger = is_integer(kType);
  [[maybe_unused]] const DefaultFloatEnvironment environment(!kInteger);
  if (!maps.map_in && maps.divisor <= 1) {
    return for_blocks<Lanes>(dst, a, b, count, [](Values mine, const Values& other) HWY_ATTR {
      combine_into<kOp>(mine, other);
      return mine;
    });
  }
  if (kInteger && maps.divisor > 1) {  // no instruction set divides vectors of integers
    return kScalarTarget.reduce[static_cast<size_t>(kType)][static_cast<size_t>(kOp)](dst, a, b, count, maps);
  }
  const Maps<Lanes> vector_maps(maps);
  for_blocks<Lanes>(dst, a, b, count, [&vector_maps](Values mine, const Values& other) HWY_ATTR {
    vector_maps.apply_in(mine);
    combine_into<kOp>(mine, other);
    vector_maps.apply_out(mine);
    return mine;
  });
}

template <class Lanes, DataType kType>
void map(void* dst, const void* a, size_t count, const ReduceMaps& maps) {
  using Values = typename Lanes::Values;
  constexpr bool kInteger = is_integer(kType);
  [[maybe_unused]] const DefaultFloatEnvironment environment(!kInteger);
  if (kInteger && maps.divisor > 1) return kScalarTarget.map[static_cast<size_t>(kType)](dst, a, count, maps);
  const Maps<Lanes> vector_maps(maps);
  for_blocks<Lanes>(dst, a, a, count, [&vector_maps](Values mine, const Values&) HWY_ATTR {
    vector_maps.apply_in(mine);
    vector_maps.apply_out(mine);
    return mine;
  });
}

// --- the table ---------------------------------------------------------------------------------------------------------------

template <class Lanes, DataType kType>
constexpr void fill(Target& target) {
  constexpr auto kRow = static_cast<size_t>(kType);
  target.reduce[kRow][static_cast<size_t>(ReduceOp::sum)] = reduce<Lanes, kType, ReduceOp::sum>;
  target.reduce[kRow][static_cast<size_t>(ReduceOp::prod)] = reduce<Lanes, kType, ReduceOp::prod>;
  target.reduce[kRow][static_cast<size_t>(ReduceOp::max)] = reduce<Lanes, kType, ReduceOp::max>;
  target.reduce[kRow][static_cast<size_t>(ReduceOp::min)] = reduce<Lanes, kType, ReduceOp::min>;
  target.map[kRow] = map<Lanes, kType>;
}

constexpr Target make_target(std::string_view name) {
  Target target{.name = name, .reduce = {}, .map = {}, .copy = copy_bytes};
  fill<NativeLanes<int8_t>, DataType::int8>(target);
  fill<NativeLanes<uint8_t>, DataType::uint8>(target);
  fill<NativeLanes<int32_t>, DataType::int32>(target);
  fill<NativeLanes<uint32_t>, DataType::uint32>(target);
  fill<NativeLanes<int64_t>, DataType::int64>(target);
  fill<NativeLanes<uint64_t>, DataType::uint64>(target);
  fill<Float16Lanes, DataType::float16>(target);
  fill<NativeLanes<float>, DataType::float32>(target);
  fill<NativeLanes<double>, DataType::float64>(target);
  fill<PackedLanes<BFloat16>, DataType::bfloat16>(target);
  fill<PackedLanes<Float8E4M3>, DataType::float8e4m3>(target);
  fill<PackedLanes<Float8E5M2>, DataType::float8e5m2>(target);
  return target;
}

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
