// SPDX-License-Identifier: Apache-2.0
// How well a partition separates: (b - a) / max(a, b) averaged over rows, where a is a row's mean distance to its own cluster and b the
// least mean distance to another one (Rousseeuw 1987). 1 is perfect, 0 none. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>

#include "federated/points.h"

namespace isthmus::federated {

inline constexpr uint32_t kSilhouetteRows = 2000;  ///< beyond, its quadratic cost is not worth it: a sample stands for all

/// Exact up to kSilhouetteRows rows, else of a sample of so many drawn with `seed`. Rows alone in their cluster count 0; so does everything
/// where fewer than two clusters have rows.
double silhouette(Metric metric, const Points& points, std::span<const uint32_t> assignment, uint32_t k, uint64_t seed);
/// With distances to centres in place of mean distances to rows: linear in the rows.
double simplified_silhouette(Metric metric, const Points& points, std::span<const uint32_t> assignment, const Points& centres);

}  // namespace isthmus::federated
