// SPDX-License-Identifier: Apache-2.0
// CPU arithmetic of the codecs that rotate nothing: bf16 (stochastic rounding), int8 and int4 (blocks of 32 elements with one bfloat16
// scale), piece by piece. Called by exec/ for encode and decode steps. Every target gives the scalar result bit for bit; the caller's
// floating-point environment neither matters nor changes. Pointers to user data and encodings may have any alignment; `work` holds
// codec::kPieceElements floats and is aligned to 64 bytes. Nothing here can fail. baseline_arithmetic.h is the definition as code.
//
// bf16: each element goes to one of the two neighbouring bfloat16 values, the further one less likely, so that the mean is the element.
// What is a bfloat16 already stays; zeros become +0, NaNs the canonical one, infinities stay. Finite elements stay finite: beyond the
// largest bfloat16 they become that one. Random bits are a function of seed, call, rank and place: a rank that encodes a place twice in a
// call uses the same ones.
//
// int8, int4: a block's scale is its largest magnitude over 127 (7), rounded up; codes are to nearest even, so errors, at most half a
// scale, do not average out. A block with anything that is not finite decodes to NaNs, all of it and nothing else.
#pragma once

#include <cstdint>

#include "codec/codec.h"
#include "kernels/coding.h"

namespace isthmus::kernels {

struct Target;

/// One instruction set's kernels: whole blocks of codec::kBlockElements elements.
struct BaselineKernels {
  /// dst = `elements` bfloat16, with the random bits of the elements from `position` on.
  void (*encode_bf16)(uint8_t* dst, const float* from, uint32_t elements, const CodecKey& key, uint64_t position);
  void (*decode_bf16)(float* to, const uint8_t* src, uint32_t elements, bool past_caches);
  /// Codes of `bits` bits, 8 or 4.
  void (*encode_blocks)(uint8_t* dst, const float* from, uint32_t elements, uint32_t bits);
  void (*decode_blocks)(float* to, const uint8_t* src, uint32_t elements, uint32_t bits, bool past_caches);
};

/// Encodes one piece: in.count elements with stride 1, at most codec::kPieceElements. `position`: of the first among the call's padded
/// elements, a multiple of codec::kBlockElements, equal on all ranks. With `residual`, writes there what the encoding does not hold of
/// (in + in.residual), 0 where it decodes to no finite number; it may be in.residual. Writes codec.encoded_bytes(codec, in.count, 1) bytes.
void baseline_encode(const Target& target, const codec::Codec& codec, void* dst, const CodecInput& in, float* residual, const CodecKey& key,
                     uint64_t position, float* work);

/// Decodes out.count elements with stride 1, at most codec::kPieceElements. What out.type cannot hold becomes infinite there.
void baseline_decode(const Target& target, const codec::Codec& codec, const CodecOutput& out, const void* src, float* work);

}  // namespace isthmus::kernels
