// SPDX-License-Identifier: Apache-2.0
// A codec and a compressed allreduce for the plan proofs only: they have all that a homomorphic codec asks of a plan (a scale found
// by a max-exchange, encodings that are added, one decode that knows how many) and nothing else.
#pragma once

#include "codec/codec.h"
#include "plan/algorithm.h"

namespace isthmus::plan {

/// Homomorphic, needs scales, blocks of 4 elements, up to 128 summands.
extern const codec::Codec kToyCodec;

/// Everybody finds the largest scale, encodes, sends share p to p, who adds them up and sends the sum to everybody to decode.
extern const Algorithm kToyAllreduce;

}  // namespace isthmus::plan
