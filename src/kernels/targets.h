// SPDX-License-Identifier: Apache-2.0
// The kernel tables of all instruction sets that this build may contain, and what the CPU can run. Private to kernels/.
#pragma once

#include "kernels/reduce.h"

#if defined(__has_feature)
#define ISTHMUS_HAS_SANITIZER(name) __has_feature(name##_sanitizer)
#else
#define ISTHMUS_HAS_SANITIZER(name) 0
#endif

namespace isthmus::kernels {

/// Sanitizers watch the scalar target only, so it is the default in builds with one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || ISTHMUS_HAS_SANITIZER(address) || ISTHMUS_HAS_SANITIZER(thread)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

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
