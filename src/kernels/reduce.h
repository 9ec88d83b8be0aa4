// SPDX-License-Identifier: Apache-2.0
// CPU element arithmetic: reduce, map, fused forms. Called by exec/ for recv_reduce, reduce, copy and map steps. One generic
// source per family, compiled once per instruction set, picked at run time; every target gives the scalar result bit for bit.
// Pointers may have any alignment (messages are cut anywhere); counts are elements. The caller's floating-point environment neither
// matters nor changes. Nothing here can fail.
//
// Semantics (DESIGN "Same bits everywhere"): integers wrap; f16/bf16/fp8 compute in float32 and round once, to nearest even,
// per stored result; fp8 saturates, NaN stays NaN; NaN results are canonical; min and max propagate NaN and order -0 < +0; no contraction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"
#include "kernels/baseline.h"
#include "kernels/thc.h"

namespace isthmus::kernels {

/// A scalar of any element type, as its bytes (PreMulSum).
struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};
};

/// How a reduce reads and stores. With map_in, `a` (the rank's own input) is multiplied by `scalar` in the compute type before
/// use; with divisor > 1 the result is divided once before it is stored (integers: the wrapped sum, truncated toward zero;
/// unsigned types unsigned).
struct ReduceMaps {
  bool map_in = false;
  Scalar scalar;
  uint32_t divisor = 1;
};

/// dst[i] = a[i] (op) b[i]; dst may be a or b. `op` is sum, prod, min or max.
using ReduceFn = void (*)(void* dst, const void* a, const void* b, size_t count, const ReduceMaps& maps);
/// dst[i] = map(a[i]); dst may be a.
using MapFn = void (*)(void* dst, const void* a, size_t count, const ReduceMaps& maps);

/// One instruction set's kernels.
struct Target {
  std::string_view name;  ///< "scalar", "sse4", "avx2", "avx512"
  ReduceFn reduce[kDataTypes][kReduceOps - 1];
  MapFn map[kDataTypes];
  void (*copy)(void* dst, const void* src, size_t bytes);
  /// The same past the caches: for what another CPU reads next, or nobody soon. Visible to others once it has returned.
  void (*stream)(void* dst, const void* src, size_t bytes);
  ThcKernels thc;
  BaselineKernels baseline;
};

/// All targets that this CPU can run, worst (scalar) first.
std::span<const Target* const> available_targets();
/// The best target (in sanitized builds scalar, which is watched), or the one that ISTHMUS_SIMD names (settings hand the name in;
/// unknown names give the best).
const Target& select_target(std::string_view name = {});

}  // namespace isthmus::kernels
