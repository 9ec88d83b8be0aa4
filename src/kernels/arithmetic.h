// SPDX-License-Identifier: Apache-2.0
// The meaning of every reduction, one element at a time: the single definition that the scalar target loops over, that device
// kernels share, and that every SIMD target must match bit for bit. Nothing here can fail. Must not be included by the objects
// that are compiled for one instruction set: these are ordinary inline functions, and the linker keeps only one copy of each.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/float_types.h"
#include "base/types.h"

namespace isthmus::kernels {

/// The type in which elements of T are combined: float32 for the narrow floats, T itself otherwise.
template <typename T>
using ComputeType = std::conditional_t<kIsMinifloat<T>, float, T>;

template <typename T>
ISTHMUS_HOST_DEVICE constexpr ComputeType<T> widen(T value) {
  if constexpr (kIsMinifloat<T>) {
    return value.to_float();
  } else {
    return value;
  }
}

/// Rounds once to T; every NaN becomes T's canonical NaN.
template <typename T>
ISTHMUS_HOST_DEVICE constexpr T narrow(ComputeType<T> value) {
  if constexpr (kIsMinifloat<T>) {
    return T::from_float(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return value != value ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return value;
  }
}

/// Integers wrap modulo 2^bits; signed ones too, hence the detour through unsigned.
template <typename C>
ISTHMUS_HOST_DEVICE constexpr C add(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    using U = std::make_unsigned_t<C>;
    return static_cast<C>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

template <typename C>
ISTHMUS_HOST_DEVICE constexpr C multiply(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    using U = std::make_unsigned_t<C>;
    return static_cast<C>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)));
  } else {
    return a * b;
  }
}

template <typename C>
ISTHMUS_HOST_DEVICE constexpr bool is_negative(C value) {
  if constexpr (sizeof(C) == 4) {
    return __builtin_bit_cast(uint32_t, value) >> 31 != 0;
  } else {
    return __builtin_bit_cast(uint64_t, value) >> 63 != 0;
  }
}

/// NaN wins over every number, in both; -0 is less than +0.
template <typename C>
ISTHMUS_HOST_DEVICE constexpr C minimum(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a) return a;
    if (a == b) return is_negative(a) ? a : b;
    return a < b ? a : b;  // an unordered b falls through to b
  } else {
    return a < b ? a : b;
  }
}

template <typename C>
ISTHMUS_HOST_DEVICE constexpr C maximum(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a) return a;
    if (a == b) return is_negative(a) ? b : a;
    return a > b ? a : b;
  } else {
    return a > b ? a : b;
  }
}

/// sum, prod, max or min (avg is a sum whose result is divided).
template <ReduceOp kOp, typename C>
ISTHMUS_HOST_DEVICE constexpr C combine(C a, C b) {
  static_assert(kOp != ReduceOp::avg);
  if constexpr (kOp == ReduceOp::sum) return add(a, b);
  if constexpr (kOp == ReduceOp::prod) return multiply(a, b);
  if constexpr (kOp == ReduceOp::max) return maximum(a, b);
  if constexpr (kOp == ReduceOp::min) return minimum(a, b);
}

/// Floats divide in the compute type; integers truncate toward zero, in 64 bits so that a divisor beyond the type's range is
/// itself and not wrapped.
template <typename C>
ISTHMUS_HOST_DEVICE constexpr C divide(C value, uint32_t divisor) {
  if constexpr (std::is_floating_point_v<C>) {
    return value / static_cast<C>(divisor);
  } else if constexpr (std::is_signed_v<C>) {
    return static_cast<C>(static_cast<int64_t>(value) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<C>(static_cast<uint64_t>(value) / divisor);
  }
}

}  // namespace isthmus::kernels
