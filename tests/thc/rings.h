// SPDX-License-Identifier: Apache-2.0
// Averages over the codecs that rotate nothing, and over bfloat16, for ranks that live in one process. Called by comparisons.cc; nothing
// can fail.
#pragma once

#include <vector>

#include "codec/codec.h"
#include "ranks.h"

namespace isthmus::thc {

/// What one encoding holds of a vector, by the kernels.
std::vector<float> one_shot(const codec::Codec& codec, const std::vector<float>& input, uint64_t op, uint32_t rank = 0);

/// Everybody sends encodings to a chunk's owner, who decodes, averages in float32 and encodes once more, by the kernels.
std::vector<float> two_shots(const codec::Codec& codec, const Vectors& inputs);

/// A ring that decodes, adds and encodes at every hop: blocks of 32 elements in 15 levels, rounded without bias. The codec int4 rounds to
/// nearest, so this rounds by itself.
std::vector<float> requantised_ring(const Vectors& inputs);

/// The uncompressed ring over bfloat16, by the reduce kernels.
std::vector<float> bf16_ring(const Vectors& inputs);

}  // namespace isthmus::thc
