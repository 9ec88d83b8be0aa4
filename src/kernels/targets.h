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

/// The scalar loops of the homomorphic codec (thc_scalar.cc), as ThcKernels describes them.
namespace scalar {
void load(float* to, const CodecInput& in, uint32_t elements);
void store(const CodecOutput& out, const float* from);
float squares(const float* from, uint32_t elements);
void rotate(float* to, const float* from, const CodecKey& key, const ThcPlace& place, float factor);
void unrotate(float* data, const CodecKey& key, const ThcPlace& place, float factor);
void encode(uint8_t* dst, uint32_t room, const float* from, float* work, const codec::Thc& thc, const CodecKey& key, const ThcPlace& place,
            const ThcQuantiser& q, const void* next);
void accumulate(uint8_t* dst, uint32_t room, const uint8_t* a, uint32_t a_room, const uint8_t* b, uint32_t b_room, size_t units,
                const codec::Thc& thc);
void levels(float* to, const uint8_t* src, uint32_t room, uint32_t summands, uint32_t elements, const codec::Thc& thc);
void decode(float* to, float* work, const uint8_t* src, uint32_t room, uint32_t summands, const codec::Thc& thc, const CodecKey& key,
            const ThcPlace& place, float factor, bool past_caches);
}  // namespace scalar

/// The scalar loops of the codecs that rotate nothing (baseline_scalar.cc), as BaselineKernels describes them.
namespace scalar {
void encode_bf16(uint8_t* dst, const float* from, uint32_t elements, const CodecKey& key, uint64_t position);
void decode_bf16(float* to, const uint8_t* src, uint32_t elements, bool past_caches);
void encode_blocks(uint8_t* dst, const float* from, uint32_t elements, uint32_t bits);
void decode_blocks(float* to, const uint8_t* src, uint32_t elements, uint32_t bits, bool past_caches);
}  // namespace scalar

inline constexpr ThcKernels kScalarThc = {.load = scalar::load,
                                          .store = scalar::store,
                                          .squares = scalar::squares,
                                          .rotate = scalar::rotate,
                                          .encode = scalar::encode,
                                          .unrotate = scalar::unrotate,
                                          .accumulate = scalar::accumulate,
                                          .levels = scalar::levels,
                                          .decode = scalar::decode};
inline constexpr BaselineKernels kScalarBaseline = {.encode_bf16 = scalar::encode_bf16,
                                                    .decode_bf16 = scalar::decode_bf16,
                                                    .encode_blocks = scalar::encode_blocks,
                                                    .decode_blocks = scalar::decode_blocks};

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
