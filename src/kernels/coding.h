// SPDX-License-Identifier: Apache-2.0
// What the arithmetic of every codec is given: elements in user memory, and what the random numbers of a call depend on. Filled by
// exec/, read by thc.h and baseline.h. Plain values, whose pointers may have any alignment, and the fence that exec/ puts behind results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace isthmus::kernels {

/// What every random bit of a call is a function of, beside the place.
struct CodecKey {
  uint64_t seed;   ///< the communicator's
  uint64_t op;     ///< counts the communicator's compressed calls: new random numbers for each
  uint32_t rank;   ///< whose encoding it is
  uint32_t ranks;  ///< how many encode
};

/// A piece's elements in user memory: float32, float16 or bfloat16.
struct CodecInput {
  const void* data;  ///< the first element
  DataType type;
  size_t stride = 1;                ///< elements from one to the next
  size_t count;                     ///< elements that exist; the piece's others are zero
  const float* residual = nullptr;  ///< with the same stride: what is added to each
  const void* next = nullptr;       ///< where as many elements are that come after these: fetched from memory meanwhile
};

struct CodecOutput {
  void* data;
  DataType type;
  size_t stride = 1;
  size_t count;
  bool past_caches = false;  ///< for results so large that nobody would find them there; then settle_stores is called
};

/// Results that were stored past the caches are seen by other threads before anything that is stored from now on.
void settle_stores();

}  // namespace isthmus::kernels
