// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX2 with FMA, F16C and BMI. Compiled with these instructions enabled, entered only where cpu.cc found them.
#include "kernels/simd_reduce.h"

#if HWY_TARGET != HWY_AVX2
#error "meson.build passes other flags than this target needs"
#endif

namespace isthmus::kernels {

constinit const Target kAvx2Target = HWY_NAMESPACE::make_target("avx2");

}  // namespace isthmus::kernels
