// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once: included by one source file per instruction set (target_*.cc), which is compiled with that
// set's flags and exports one table. Unnamed namespace and no library functions that are templates: such an object must leave nothing
// behind that the linker could pick for other callers. Results equal kernels/arithmetic.h bit for bit. Nothing here can fail.
#pragma once

#include <hwy/cache_control.h>

#include <cstring>
#include <iterator>

#include "kernels/float_environment.h"
#include "kernels/simd_baseline.h"
#include "kernels/simd_lanes.h"
#include "kernels/simd_thc.h"
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

/// Where a kernel is in its operands.
struct Cursor {
  unsigned char* dst;
  const unsigned char* a;
  const unsigned char* b;
  size_t bytes;  ///< still to do

  HWY_INLINE Cursor(void* to, const void* first, const void* second, size_t size)
      : dst(static_cast<unsigned char*>(to)),
        a(static_cast<const unsigned char*>(first)),
        b(static_cast<const unsigned char*>(second)),
        bytes(size) {}
  HWY_INLINE void advance(size_t size) {
    dst += size;
    a += size;
    b += size;
    bytes -= size;
  }
};

/// dst = step(a, b) for all whole blocks.
template <class Lanes, class Step>
HWY_INLINE void whole_blocks(Cursor& cursor, const Step& step) {
  for (; cursor.bytes >= Lanes::kBytes; cursor.advance(Lanes::kBytes)) {
    Lanes::store(cursor.dst, step(Lanes::load(cursor.a), Lanes::load(cursor.b)));
  }
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

  HWY_INLINE Values in(Values values) const {
    if (!in_) return values;
    for (auto& part : values.part) part = multiply(part, factor_);
    return values;
  }
  HWY_INLINE Values out(Values values) const {
    if constexpr (std::is_floating_point_v<typename Lanes::Compute>) {
      if (!out_) return values;
      for (auto& part : values.part) part = hn::Div(part, divisor_);
    }
    return values;
  }

 private:
  bool in_, out_;
  typename Lanes::V factor_, divisor_;
};

template <ReduceOp kOp, class Values>
HWY_INLINE Values combined(Values mine, const Values& other) {
  for (size_t i = 0; i < std::size(mine.part); ++i) mine.part[i] = combine<kOp>(mine.part[i], other.part[i]);
  return mine;
}

/// What whole blocks leave: ever smaller ones, so that a few elements cost a few instructions.
template <class Lanes, ReduceOp kOp>
HWY_INLINE void smaller_blocks(Cursor& cursor) {
  if constexpr (Lanes::kBytes > Lanes::kLeastBytes) {
    using Half = typename Lanes::Half;
    if (cursor.bytes >= Half::kBytes) {
      Half::store(cursor.dst, combined<kOp>(Half::load(cursor.a), Half::load(cursor.b)));
      cursor.advance(Half::kBytes);
    }
    smaller_blocks<Half, kOp>(cursor);
  }
}

template <class Lanes, DataType kType, ReduceOp kOp>
void reduce(void* dst, const void* a, const void* b, size_t count, const ReduceMaps& maps) {
  using Values = typename Lanes::Values;
  constexpr bool kInteger = is_integer(kType);
  constexpr size_t kSize = sizeof(typename Lanes::Element);
  Cursor cursor(dst, a, b, count * kSize);
  if (!maps.map_in && maps.divisor <= 1) {
    [[maybe_unused]] const DefaultFloatEnvironment environment(!kInteger);
    whole_blocks<Lanes>(cursor, [](const Values& mine, const Values& other) HWY_ATTR { return combined<kOp>(mine, other); });
    smaller_blocks<Lanes, kOp>(cursor);
  } else if (!kInteger || maps.divisor <= 1) {  // no instruction set divides vectors of integers
    [[maybe_unused]] const DefaultFloatEnvironment environment(!kInteger);
    const Maps<Lanes> vector_maps(maps);
    whole_blocks<Lanes>(cursor, [&vector_maps](const Values& mine, const Values& other)
                                    HWY_ATTR { return vector_maps.out(combined<kOp>(vector_maps.in(mine), other)); });
  }
  if (cursor.bytes == 0) return;
  kScalarTarget.reduce[static_cast<size_t>(kType)][static_cast<size_t>(kOp)](cursor.dst, cursor.a, cursor.b, cursor.bytes / kSize, maps);
}

template <class Lanes, DataType kType>
void map(void* dst, const void* a, size_t count, const ReduceMaps& maps) {
  using Values = typename Lanes::Values;
  constexpr bool kInteger = is_integer(kType);
  constexpr size_t kSize = sizeof(typename Lanes::Element);
  Cursor cursor(dst, a, a, count * kSize);
  if (!kInteger || maps.divisor <= 1) {
    [[maybe_unused]] const DefaultFloatEnvironment environment(!kInteger);
    const Maps<Lanes> vector_maps(maps);
    whole_blocks<Lanes>(cursor,
                        [&vector_maps](const Values& mine, const Values&) HWY_ATTR { return vector_maps.out(vector_maps.in(mine)); });
  }
  if (cursor.bytes != 0) kScalarTarget.map[static_cast<size_t>(kType)](cursor.dst, cursor.a, cursor.bytes / kSize, maps);
}

// --- copies ------------------------------------------------------------------------------------------------------------------

inline void stream_bytes(void* dst, const void* src, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  auto* to = static_cast<uint8_t*>(dst);
  const auto* from = static_cast<const uint8_t*>(src);
  const size_t lane_bytes = hn::Lanes(d);
  const size_t head = static_cast<size_t>(-reinterpret_cast<uintptr_t>(to)) & 63U;  // whole lines from here on
  if (bytes < head + 64) return copy_bytes(dst, src, bytes);
  copy_bytes(to, from, head);
  size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    for (size_t part = 0; part < 64; part += lane_bytes) hn::Stream(hn::LoadU(d, from + at + part), d, to + at + part);
  }
  hwy::FlushStream();
  copy_bytes(to + at, from + at, bytes - at);
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
  Target target{.name = name, .reduce = {}, .map = {}, .copy = copy_bytes, .stream = stream_bytes, .thc = kThc, .baseline = kBaseline};
  fill<NativeLanes<int8_t>, DataType::int8>(target);
  fill<NativeLanes<uint8_t>, DataType::uint8>(target);
  fill<NativeLanes<int32_t>, DataType::int32>(target);
  fill<NativeLanes<uint32_t>, DataType::uint32>(target);
  fill<NativeLanes<int64_t>, DataType::int64>(target);
  fill<NativeLanes<uint64_t>, DataType::uint64>(target);
  fill<Float16Lanes<>, DataType::float16>(target);
  fill<NativeLanes<float>, DataType::float32>(target);
  fill<NativeLanes<double>, DataType::float64>(target);
  fill<BFloat16Lanes<>, DataType::bfloat16>(target);
  fill<PackedLanes<Float8E4M3>, DataType::float8e4m3>(target);
  fill<PackedLanes<Float8E5M2>, DataType::float8e5m2>(target);
  return target;
}

}  // namespace
}  // namespace isthmus::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
