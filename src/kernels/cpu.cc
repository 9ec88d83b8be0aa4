// SPDX-License-Identifier: Apache-2.0
// What the CPU can run, read from cpuid. An instruction set counts only if the operating system saves its registers (xgetbv).
// Called once by select.cc; cannot fail: what is unknown is absent.
#include "kernels/targets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace isthmus::kernels {

#if defined(__x86_64__)
namespace {

constexpr bool has_all(uint64_t value, uint64_t mask) { return (value & mask) == mask; }

// State components of XCR0.
constexpr uint64_t kStateAvx = 0x06;     // xmm, ymm
constexpr uint64_t kStateAvx512 = 0xe6;  // and mask registers, both parts of zmm

uint64_t saved_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

}  // namespace

CpuFeatures detect_cpu() {
  constexpr unsigned kSse4Leaf1 = bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2;
  constexpr unsigned kAvx2Leaf1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
  constexpr unsigned kAvx2Leaf7 = bit_AVX2 | bit_BMI | bit_BMI2;
  constexpr unsigned kAvx512Leaf7 = bit_AVX512F | bit_AVX512CD | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  CpuFeatures features;
  unsigned eax = 0, ebx = 0, leaf1 = 0, leaf7 = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &leaf1, &edx) == 0) return features;
  features.sse4 = has_all(leaf1, kSse4Leaf1);
  if (!has_all(leaf1, kAvx2Leaf1) || __get_cpuid_count(7, 0, &eax, &leaf7, &ecx, &edx) == 0) return features;
  const uint64_t state = saved_state();
  features.avx2 = features.sse4 && has_all(leaf7, kAvx2Leaf7) && has_all(state, kStateAvx);
  features.avx512 = features.avx2 && has_all(leaf7, kAvx512Leaf7) && has_all(state, kStateAvx512);
  return features;
}
#else
CpuFeatures detect_cpu() { return {}; }
#endif

}  // namespace isthmus::kernels
