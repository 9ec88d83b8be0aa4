// SPDX-License-Identifier: Apache-2.0
// The phases that algorithms are made of: a reduce-scatter phase leaves each share summed at one position, an allgather phase
// brings all shares everywhere. They take a Group and one chunk a position, so that they compose over any subset of ranks and
// any part of the grid. Called by the algorithms of collectives/; errors are held by the builder.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/algorithm.h"
#include "plan/builder.h"

namespace isthmus::collectives {

using plan::Across;
using plan::Builder;
using plan::Chunk;
using plan::Group;
using plan::Shape;

/// One chunk for each position of a group: Chunks[p] is the share of position p.
using Chunks = std::span<const Chunk>;

/// Cell borders fall on multiples of this many elements, so that neighbours rarely write one cache line.
inline constexpr uint32_t kCellAlign = 16;

/// All of the shape's group, in the builder's numbering of peers.
Group everyone(const Shape& shape);

/// allgather: the caller's own block.
Chunk own_block(const Shape& shape, Builder& b);
/// `whole` cut into `parts` chunks of equally many cells.
std::vector<Chunk> shares(const Chunk& whole, int32_t parts);
/// Cell `index` of a chunk, counted from its first.
Chunk cell_of(const Chunk& chunk, uint32_t index);
/// The same cells of another window.
Chunk on(const Chunk& window, const Chunk& cells);
std::vector<Chunk> on(const Chunk& window, Chunks cells);
/// The cell of that index of each block.
std::vector<Chunk> cells_of(Chunks blocks, uint32_t index);
/// Neighbouring shares [begin, end) as one chunk.
Chunk joined(Chunks shares, int32_t begin, int32_t end);
/// Completes a chunk cell by cell, as phases that work cell by cell have written it.
void complete_cells(Builder& b, const Chunk& chunk);
/// `to` = `from` unless they are the same chunk.
void place(Builder& b, const Chunk& to, const Chunk& from);

// --- segments --------------------------------------------------------------------------------------------------------------------

/// What an algorithm does with the cells of one segment.
using Stage = std::function<void(uint32_t segment)>;

/// Emits the stages of all segments, so that the first stage of the next two segments is under way before the second stage of a segment,
/// and its third, for which nobody waits, comes after the second of the next two.
void pipelined(uint32_t segments, const Stage& first, const Stage& second, const Stage& third);

// --- ring: neighbours only, P-1 steps, each cell its own pipeline --------------------------------------------------------------

/// Share p ends up summed in to[p] at position p; other entries of `to` hold partials on their way. Two shares that follow each other
/// around the ring may not have the same home; every other one may.
void ring_reduce_scatter(Builder& b, const Group& group, Chunks from, Chunks to);
/// Share p, held in `own` by position p, ends up in to[p] everywhere.
void ring_allgather(Builder& b, const Group& group, const Chunk& own, Chunks to);

// --- direct: everybody with everybody, one step --------------------------------------------------------------------------------

/// `result` = the sum of all positions' from[own position], added in the order of positions.
void direct_reduce_scatter(Builder& b, const Group& group, Chunks from, const Chunk& result);
/// As ring_allgather.
void direct_allgather(Builder& b, const Group& group, const Chunk& own, Chunks to);

/// to[p] = what position p has for this one, for every other p: `blocks` are by whom they are for, both by what the group calls its
/// positions.
void exchange_blocks(Builder& b, const Group& group, Chunks blocks, Chunks to);

// --- star: one position and everybody --------------------------------------------------------------------------------------------

/// `result` at position `home` = the sum of all positions' `from`, added in the order of positions. `result` counts at `home` only.
void star_reduce(Builder& b, const Group& group, int32_t home, const Chunk& from, const Chunk& result);
/// What lies in `chunk` at position `home` ends up there everywhere.
void star_broadcast(Builder& b, const Group& group, int32_t home, const Chunk& chunk);

/// `out` = the sum of all positions' `in`, added in the order of positions, completed: each gets all buffers and adds them itself.
void one_shot(Builder& b, const Group& group, const Chunk& in, const Chunk& out);

// --- chain: from neighbour to neighbour, each cell its own pipeline ------------------------------------------------------------------

/// Who comes before and after a position, in a chain of all of them that begins at the root. -1: nobody.
struct Neighbours {
  int32_t before = -1, after = -1;
  uint8_t level_before = 0, level_after = 0;  ///< of the messages with them
};
/// The chain in the order of positions, around from the root.
Neighbours neighbours(const Group& group, int32_t root);

/// What lies in the root's `in` ends up in everybody's `out`.
void chain_broadcast(Builder& b, const Neighbours& chain, const Chunk& in, const Chunk& out);
/// Where the sums of a chain come into being: the root's `out`, elsewhere scratch.
Chunk room_for_chain(Builder& b, const Neighbours& chain);
/// The root's `sum` = the sum of everybody's `in`, added from the end of the chain on, completed. In between, `sum` is room for partials,
/// but at the end, which needs none.
void chain_reduce(Builder& b, const Neighbours& chain, const Chunk& in, const Chunk& sum);

// --- halving and doubling: ceil(log2 P) steps for any P -------------------------------------------------------------------------

/// One halving of a set of positions: the sides exchange, and each goes on with its own shares. Where the sides are uneven the last
/// position of the larger one has no partner: it gives its part to the last of the smaller side, and later gets it back from there.
struct Halving {
  int32_t mine_begin = 0, mine_end = 0;      ///< shares that my side goes on with
  int32_t theirs_begin = 0, theirs_end = 0;  ///< shares of the other side
  int32_t partner = -1;                      ///< whom I exchange with
  int32_t helper = -1;                       ///< instead of a partner: who takes my part
  int32_t helped = -1;                       ///< besides the partner: whose part I take
};

/// Which positions form the sides. Far: [0, P/2) against the rest, position p ends with share p, the farthest pairs exchange the largest
/// halves. Near: even against odd positions, so that neighbours exchange the largest halves; shares are dealt out accordingly.
enum class Pairing : uint8_t { far, near };

/// The halvings that one position goes through, largest first, and the share that it ends with.
struct Halvings {
  std::vector<Halving> steps;
  int32_t share = 0;
};
Halvings halvings(const Group& group, Pairing pairing);

/// `result` = my share's sum. `work` holds partials of the shares that my side goes on with; its cells are those of `from`.
void halving_reduce_scatter(Builder& b, const Group& group, const Halvings& halvings, Chunks from, const Chunk& work, const Chunk& result);
/// The way back: my share lies in `own`; to[s] ends up with share s everywhere.
void doubling_allgather(Builder& b, const Group& group, const Halvings& halvings, const Chunk& own, Chunks to);

// --- recursive doubling: whole buffers between pairs, ceil(log2 P) steps, one more unless P is a power of two ---------------------

/// `out` = the sum of all positions' `in`, completed. Both of a pair add the same two operands, and a sum of two does not depend on
/// their order, so all positions hold the same bits.
void recursive_doubling(Builder& b, const Group& group, const Chunk& in, const Chunk& out);
/// `out` = the largest of all positions' scales in `in`.
void doubling_of_scales(Builder& b, const Group& group, const Chunk& in, const Chunk& out);

}  // namespace isthmus::collectives
