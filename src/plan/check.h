// SPDX-License-Identifier: Apache-2.0
// Two proofs over the plans of all ranks of a group, with no data and no network: the symbolic checker (the right contributions
// end up everywhere, with the same association on every rank) and the deadlock checker (messages match; nothing waits for ever
// with no buffering beyond the inbox). Called by tests/plan, by `isthmus plan check` and, when ISTHMUS_CHECK_PLANS is set, by
// comm/. A failure's text names rank, step, cell and the algorithm's source line.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// The plans of every rank of one collective, by communicator rank.
using World = std::span<const Plan>;

/// Proves for `count` elements per block that every output element holds exactly the contributions its collective defines
/// (allreduce: one of each rank everywhere; reduce: at the root; reduce_scatter: block r at rank r; allgather: block r from rank r;
/// alltoall: block r is what rank r has for the own rank; broadcast: the root's; sendrecv: what was sent), that avg's division and
/// PreMulSum's map are applied exactly once, that reductions associate alike on all ranks (so all ranks hold the same bits), that nothing
/// reads cells nobody wrote, that sizes of messages agree, that no step touches memory outside its buffer or the caller's `in` out of
/// place, and, for codecs, that encodes follow their scale's max-exchange, accumulates join equal tokens within the width limit and decodes
/// carry their summand count. Steps are run in a seed-dependent order that respects only the declared dependencies, so a missing one shows:
/// any two steps that touch the same cells, one of them writing, must be ordered by dependencies.
Status check_symbolic(World world, uint64_t count, uint64_t seed = 0);
/// For several counts, each in another order.
Status check_symbolic(World world, std::span<const uint64_t> counts, uint64_t seed = 0);

/// How sends complete while looking for deadlocks.
enum class Reads : uint8_t {
  pushed,    ///< every message is pushed once the receiver can land it
  in_place,  ///< sends flagged kReadInPlace complete only when the peer has applied them
};

/// Proves that all steps complete when a message moves only if its receiver has room for it: a recv when its dependencies
/// are complete, a recv_reduce when its slot is free, in ordinal order per (sender, receiver), and nothing else is buffered.
Status check_deadlock(World world, uint64_t count, Reads reads);

}  // namespace isthmus::plan
