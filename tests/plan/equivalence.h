// SPDX-License-Identifier: Apache-2.0
// The rules by which a damaged plan means the same as the original, so that no checker can find the damage. Called by
// tests/plan/mutate.cc. Steps are named by their places in a plan, which is well-formed but for the damage. Nothing here can fail.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/memory_map.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// Whether two chunks share a memory cell.
bool overlap(const MemoryMap& memory, const Chunk& a, const Chunk& b);

/// Rule 1: a local step that reads nothing of what it writes may run twice in a row. Its result is a function of its sources, and
/// between the two runs nobody writes the sources or reads the destination (whoever would, follows the second run).
bool may_run_twice(const Plan& plan, const Step& step);

/// Rule 2: applying the same message twice in a row is applying it once, if the op is idempotent: max(max(x, m), m) = max(x, m).
bool is_idempotent(ReduceOp op);

/// Rule 3: a dependency that the others imply may be dropped: which steps precede which, and so what can happen, stays the same.
bool is_implied(const Plan& plan, uint32_t step, uint32_t before);

/// Rule 4: of two steps that add to the same cells with the same op, the second may go first, if neither changes the other's addend and
/// no step between them touches the cells. The op is commutative and associative on contributions, so the same ones meet. Encodings are
/// integers, and their sums the same bits. Elements may get other bits, but the same on all ranks if one step alone in the world
/// completes each cell, or makes the sum that the second makes: whoever holds that sum holds a copy of that step's result.
bool may_change_places(const std::vector<Plan>& world, size_t rank, size_t first, size_t second);

/// Rule 5: a local step that reads nothing of what it writes may also compute a further cell of scratch if nobody reads what that cell then
/// holds, or if it is what another step of its kind computes there from the same buffers: then between the two nobody may write the
/// cell's sources or its destination, nor, if the other step comes later, read the destination, which would have held something else.
bool may_also_compute(const Plan& plan, size_t grown, uint32_t extra);

/// Rule 6: what two steps bring may change places where elements are added, if still everything is added once and one step alone in the
/// world completes each cell: the sum is another association, but whoever holds it holds a copy of that step's result. Encodings
/// by different scales do not add up, which sets of contributions do not show; so this is for sums of elements.
bool may_trade_operands(const std::vector<Plan>& world);

}  // namespace isthmus::plan
