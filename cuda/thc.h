// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec on NVIDIA GPUs, a cell at a time: kernels/thc.h's results bit for bit, for elements, encodings and scales in
// device memory. Needs no CUDA header. Called by tests/gpu. A call enqueues one kernel on a stream of the current device, keeps and
// allocates nothing and waits for nothing. It fails with invalid_argument for an element type, room or alignment that there is no
// kernel for, and with system_error where the launch fails; what goes wrong on the device is reported by whoever waits for the stream.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/types.h"
#include "codec/thc.h"
#include "kernels/coding.h"

namespace isthmus::cuda {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

/// A run of elements that is encoded as a whole.
struct ThcCell {
  uint64_t elements;
  uint64_t position = 0;  ///< of its encoding among the call's elements, a multiple of 64, equal on all ranks
};

/// A cell's elements: float32, float16 or bfloat16, aligned as such.
struct ThcInput {
  const void* data;
  DataType type;
  const float* residual = nullptr;  ///< as many: what is added to each
};

struct ThcOutput {
  void* data;
  DataType type;
};

/// An encoding of 8 thc.width(room) bytes for each 64 elements, begun ones too; aligned to 4 bytes.
struct ThcEncoding {
  void* data;
  uint32_t room;  ///< how many encodings may be added in it; 1: it holds indices
};

/// One that is read.
struct ThcEncoded {
  const void* data;
  uint32_t room;
};

/// scales[g] = this rank's scale of the cell's g-th group. Joined over the ranks by an unsigned maximum over their bits.
Status thc_measure(Stream stream, float* scales, const ThcInput& in, const codec::Thc& thc, const ThcCell& cell);

/// Encodes a cell, given the scales over all ranks. With `lost` (as many floats as elements), writes there what the encoding lacks; it
/// may be in.residual.
Status thc_encode(Stream stream, const ThcEncoding& to, const ThcInput& in, float* lost, const codec::Thc& thc,
                  const kernels::CodecKey& key, const ThcCell& cell, const float* scales);

/// to = a + b over `units` units of 64 elements; `to` has room for more than one encoding, and may be a or b where the rooms are equal.
Status thc_accumulate(Stream stream, const ThcEncoding& to, const ThcEncoded& a, const ThcEncoded& b, uint64_t units,
                      const codec::Thc& thc);

/// Decodes the sum of `summands` encodings: times multiplier / summands (1: average, number of ranks: sum).
Status thc_decode(Stream stream, const ThcOutput& out, const ThcEncoded& from, uint32_t summands, uint32_t multiplier,
                  const codec::Thc& thc, const kernels::CodecKey& key, const ThcCell& cell, const float* scales);

}  // namespace isthmus::cuda
