// SPDX-License-Identifier: Apache-2.0
// The kernels for SSE4.2. Compiled with these instructions enabled, entered only where cpu.cc found them.
#include "kernels/simd_reduce.h"

#if HWY_TARGET != HWY_SSE4
#error "meson.build passes other flags than this target needs"
#endif

namespace isthmus::kernels {

constinit const Target kSse4Target = HWY_NAMESPACE::make_target("sse4");

}  // namespace isthmus::kernels
