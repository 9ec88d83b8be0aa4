// SPDX-License-Identifier: Apache-2.0
// The phases of compressed algorithms. Most add encodings: every rank measures its elements, all join their scales, each encodes once;
// integer sums of encodings travel; in the end everybody decodes the sum of all. Integer sums are exact, so all of these algorithms give
// the same bits. A partial sum of k encodings has room for k on the wire, so its bits grow on the way. For codecs whose encodings cannot be
// added there are decoded sums. Called by the algorithms of collectives/compressed/; errors are held by the builder.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/phases.h"

namespace isthmus::collectives {

/// Where a compressed sum comes into being: windows over the whole grid, except that `sums` and `out` of a reduce-scatter are the own
/// block.
struct Coded {
  Chunk in, out;   ///< elements
  Chunk measured;  ///< scales of the own elements
  Chunk scales;    ///< joined: of everybody's
  Chunk indices;   ///< the own elements encoded, room for one
  Chunk sums;      ///< room for all ranks'
  bool scaled;     ///< the codec has scales
};

/// Splits blocks into `cells_per_block` cells of whole codec blocks, and opens the windows.
Coded open_coded(const Shape& shape, Builder& b, uint32_t cells_per_block);

/// Scales of a chunk's elements are measured, and joined over the group: directly up to 8 positions, above by recursive doubling.
void join_scales(Builder& b, const Group& group, const Coded& coded, const Chunk& cells);
/// Joins the scales in `from` over the group, into `to`.
void join(Builder& b, const Group& group, const Chunk& from, const Chunk& to);
// What follows goes cell by cell, so that the first cells are on their way while the next are worked on.

/// Measures the scales of a chunk's elements.
void measure(Builder& b, const Coded& coded, const Chunk& cells);
/// Encodes them by the joined scales and their own.
void encode(Builder& b, const Coded& coded, const Chunk& cells);
/// Decodes their complete sums into `out`.
void decode(Builder& b, const Group& all, const Coded& coded, const Chunk& cells);

/// The result of a rank by itself: what it gave, exactly.
void copy_alone(Builder& b);

// --- segments --------------------------------------------------------------------------------------------------------------------

/// Leaves the sum of all positions' encodings in `sums` of each of the shares (allreduce), or of the own one (reduce-scatter). Chunks are
/// those of `in`.
using Summing = std::function<void(const Coded& coded, Chunks shares)>;

/// An allreduce in segments of one cell for each of `parts` shares; a segment's cells follow each other, so its scales are one chunk.
void coded_allreduce(const Shape& shape, Builder& b, int32_t parts, const Summing& sum);
/// A reduce-scatter whose blocks have one cell a segment. The scales of all segments of some blocks are one chunk, so they go first.
void coded_reduce_scatter(const Shape& shape, Builder& b, const Summing& sum);
/// reduce-scatter: joins the scales of all blocks, some blocks at a time.
void join_scales_of_blocks(const Shape& shape, Builder& b, const Coded& coded);

// --- sums of encodings ---------------------------------------------------------------------------------------------------------------

/// Up to `parts` chunks of consecutive cells.
std::vector<Chunk> cut(const Chunk& whole, uint32_t parts);
/// Room for so many encodings of the cells.
Chunk room_for(Builder& b, const Chunk& cells, int32_t summands);

/// Everybody sends its encoding of each share to the share's position, which adds them.
void direct_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares);

/// Partial sums of a share go once around the ring and end at the share's position.
void ring_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares);

/// The halvings of a position, and by halving and position: how many encodings its partial sums hold before it. They differ where sides are
/// uneven.
struct GrowingHalvings {
  Halvings path;
  std::vector<std::vector<int32_t>> summands;
};
GrowingHalvings growing_halvings(const Group& group, Pairing pairing);

/// Sums of ever smaller sets of shares, as halving_reduce_scatter. Messages are cut into up to `parts` parts, so that adding the first goes
/// on while the next are on their way.
void halving_sum(Builder& b, const Group& group, const GrowingHalvings& halvings, const Coded& coded, Chunks shares, uint32_t parts);

/// Everybody sends its encoding of the cells to position `home`, which adds them in `sum`. Where the sum then lies there: by itself, a
/// rank has nothing to add to its encoding.
Chunk star_sum(Builder& b, const Group& group, int32_t home, const Coded& coded, const Chunk& cells, const Chunk& sum);

// --- decoded sums ---------------------------------------------------------------------------------------------------------------------

/// Everybody encodes its elements of each share for the share's position, which decodes them and adds them in the order of positions, its
/// own as they are; `result`, of the own share, ends up completed. `encoded` is room for an encoding of everything.
void decoded_sum(Builder& b, const Group& group, Chunks shares, const Chunk& encoded, const Chunk& result);

}  // namespace isthmus::collectives
