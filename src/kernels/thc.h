// SPDX-License-Identifier: Apache-2.0
// CPU arithmetic of the homomorphic codec, group by group, so that measuring, encoding, sending, adding and decoding can be
// pipelined. Called by exec/ for measure, encode, accumulate and decode steps. Every target gives the scalar result bit for bit.
// Pointers to user data and encodings may have any alignment; `work` holds the group's elements and is aligned to 64 bytes. Nothing
// here can fail. docs/compression.md defines the arithmetic; thc_arithmetic.h and thc_group.h are that definition as code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/thc.h"
#include "kernels/coding.h"

namespace isthmus::kernels {

struct Target;

/// One group in one call: where it is, how large.
struct ThcPlace {
  uint64_t position;  ///< of its encoding among the call's elements, a multiple of 64, equal on all ranks
  uint32_t elements;  ///< a power of two, 64 to 8192
};

/// Numbers that quantising one group needs; made by thc_group.h.
struct ThcQuantiser {
  float normaliser;     ///< what elements are multiplied by before they are rotated
  float factor;         ///< from rotated coordinates to fixed point
  int32_t shift;        ///< its bits beyond 256ths of a table unit (thc_group.h)
  uint32_t middle;      ///< 256ths of a table unit at zero; twice as many at +t
  uint8_t stratum;      ///< added to every dither byte
  uint32_t counter[3];  ///< the Philox counter's upper words
};

/// One instruction set's kernels. `room`: how many encodings the layout has room for (1: indices, more: sums).
struct ThcKernels {
  /// to[0, elements) = the input in float32, zeros after its end. This and `store` serve every codec.
  void (*load)(float* to, const CodecInput& in, uint32_t elements);
  void (*store)(const CodecOutput& out, const float* from);
  /// The sum of squares of `elements` floats in a fixed order.
  float (*squares)(const float* from, uint32_t elements);
  /// to = H (signs o from * factor), unnormalised. `from` may be `to`. What encode quantises but for rounding, for those who look at it.
  void (*rotate)(float* to, const float* from, const CodecKey& key, const ThcPlace& place, float factor);
  /// dst = the table indices (room 1) or table values (more) of rotated coordinates, H (signs o from * normaliser) in
  /// fixed point: hadamard_to_fixed_point. No sum of eight elements times both is beyond 2^31. `from` may be `work`, which holds anything
  /// afterwards. At `next`, if not null, is what will be read then.
  void (*encode)(uint8_t* dst, uint32_t room, const float* from, float* work, const codec::Thc& thc, const CodecKey& key,
                 const ThcPlace& place, const ThcQuantiser& q, const void* next);
  /// data = signs o (H data) * factor.
  void (*unrotate)(float* data, const CodecKey& key, const ThcPlace& place, float factor);
  /// dst = a + b over `units` units of 64 elements, dst with room for more than one; dst may be a or b where the rooms are equal.
  void (*accumulate)(uint8_t* dst, uint32_t room, const uint8_t* a, uint32_t a_room, const uint8_t* b, uint32_t b_room, size_t units,
                     const codec::Thc& thc);
  /// to[i] = 2 sum[i] - summands * granularity.
  void (*levels)(float* to, const uint8_t* src, uint32_t room, uint32_t summands, uint32_t elements, const codec::Thc& thc);
  /// levels, then unrotate, the result in `to`, which has any alignment and may be `work`; with past_caches stored past the caches
  /// where that can be.
  void (*decode)(float* to, float* work, const uint8_t* src, uint32_t room, uint32_t summands, const codec::Thc& thc, const CodecKey& key,
                 const ThcPlace& place, float factor, bool past_caches);
};

/// This rank's scale of a group: the root of the mean square, never negative; 0x7fc00000 if anything in it is not finite. Scales are
/// joined by an unsigned integer maximum over their bits, in which that wins.
float thc_measure(const Target& target, const CodecInput& in, uint32_t elements, float* work);

/// A group's scale on this rank, as thc_measure found it, and the largest of all ranks'.
struct ThcScales {
  float own, joined;
};

/// Encodes one group. With `residual`, writes there (in's stride and count) what the encoding does not hold; it may be in.residual. Writes
/// thc.width(room) bits an element.
void thc_encode(const Target& target, void* dst, uint32_t room, const CodecInput& in, float* residual, const codec::Thc& thc,
                const CodecKey& key, const ThcPlace& place, const ThcScales& scales, float* work);

/// Decodes the sum of `summands` encodings: times multiplier / summands (1: average, number of ranks: sum).
void thc_decode(const Target& target, const CodecOutput& out, const void* src, uint32_t room, uint32_t summands, uint32_t multiplier,
                const codec::Thc& thc, const CodecKey& key, const ThcPlace& place, float scale, float* work);

}  // namespace isthmus::kernels
