// SPDX-License-Identifier: Apache-2.0
// The kernel tables of all instruction sets that this build may contain, and what the CPU can run. Private to kernels/.
#pragma once

#include "kernels/reduce.h"

namespace isthmus::kernels {

extern const Target kScalarTarget;
// These three exist only with ISTHMUS_X86_TARGETS.
extern const Target kSse4Target;
extern const Target kAvx2Target;
extern const Target kAvx512Target;

/// Every target's copy.
void copy_bytes(void* dst, const void* src, size_t bytes);

/// What this CPU has and the operating system saves on a context switch.
struct CpuFeatures {
  bool sse4 = false;
  bool avx2 = false;    ///< with FMA, F16C, BMI1 and BMI2
  bool avx512 = false;  ///< F, CD, BW, DQ and VL
};
CpuFeatures detect_cpu();

}  // namespace isthmus::kernels
