// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's arithmetic in double precision, apart from the product's code but for its tables: for variants that the
// product does not offer. g=30, p=1/32, private dither, no pre-scale. Called by comparisons.cc; nothing can fail.
#pragma once

#include <cstddef>
#include <vector>

#include "ranks.h"

namespace isthmus::thc {

struct Variant {
  size_t group;             ///< elements rotated together: a power of two that divides the vector
  bool one_scale = false;   ///< the largest vector's for all groups, instead of each its own
  bool to_nearest = false;  ///< level, instead of without bias
};

/// The average as every rank would decode it.
std::vector<float> rotated_average(const Vectors& inputs, const Variant& variant);

}  // namespace isthmus::thc
