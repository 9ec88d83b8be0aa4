// SPDX-License-Identifier: Apache-2.0
// What the plan proofs run over: the plans of all ranks of a shape, and the shapes of an algorithm. Called by the programs of
// tests/plan and by unit tests. Building fails only where an algorithm has a defect.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/algorithm.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// The plans of every rank of the shape's group (its position is ignored).
Result<std::vector<Plan>> build_world(const Algorithm& algorithm, Shape shape);

/// Both registries, and the toy allreduce.
std::vector<const Algorithm*> all_algorithms();

/// Every shape in which the algorithm is proved at that many ranks: ops (sum, avg, scaled input), in place and
/// out, segments, roots (all of them up to 16 ranks, a few beyond), codecs, sites, leaders, ways across. What they refer to lives as long
/// as the program.
std::vector<Shape> shapes_of(const Algorithm& algorithm, int32_t ranks);

/// Bytes that leave a site when the plans of all ranks run with blocks of `count` elements of `element_bytes`. `levels_tell` becomes false
/// if a step's level says anything else about whether it crosses.
uint64_t bytes_across(const std::vector<Plan>& world, std::span<const int32_t> sites, uint64_t count, size_t element_bytes,
                      bool& levels_tell);

/// "allreduce/ring over 5 ranks, in place, avg, 3 segments, root 2".
std::string describe(const Algorithm& algorithm, const Shape& shape);

}  // namespace isthmus::plan
