// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 (F, CD, BW, DQ, VL). Compiled with these instructions enabled, entered only where cpu.cc found them.
#include "kernels/simd_reduce.h"

#if HWY_TARGET != HWY_AVX3
#error "meson.build passes other flags than this target needs"
#endif

namespace isthmus::kernels {

constinit const Target kAvx512Target = HWY_NAMESPACE::make_target("avx512");

}  // namespace isthmus::kernels
