// SPDX-License-Identifier: Apache-2.0
// The phases of algorithms that add encodings: every rank measures its elements, all join their scales, each encodes once; integer
// sums of encodings travel and grow; in the end everybody decodes the sum of all. Integer sums are exact, so all of these algorithms give
// the same bits. A partial sum of k encodings has room for k on the wire, and its bits grow with it. Called by the
// algorithms of collectives/compressed/; errors are held by the builder.
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
/// The same cells of another window.
Chunk on(const Chunk& window, const Chunk& cells);
std::vector<Chunk> on(const Chunk& window, Chunks cells);

/// Scales of a chunk's elements are measured, and joined over the group: directly up to 8 positions, above by recursive doubling.
void join_scales(Builder& b, const Group& group, const Coded& coded, const Chunk& cells);
/// Encodes a chunk's elements by the joined scales.
void encode(Builder& b, const Coded& coded, const Chunk& cells);
/// Decodes the complete sums of a chunk's cells, one by one, into `out`.
void decode(Builder& b, const Group& all, const Coded& coded, const Chunk& cells);

/// The result of a rank by itself: what it gave, exactly.
void copy_alone(Builder& b);

// --- segments --------------------------------------------------------------------------------------------------------------------

/// What an algorithm does with the cells of one segment.
using Stage = std::function<void(uint32_t segment)>;

/// Emits all segments' stages, so that the scales of the next two segments are under way before a segment is encoded, and decoding, for
/// which nobody waits, comes after the next two are encoded and sent.
void pipelined(uint32_t segments, const Stage& scales, const Stage& sum, const Stage& decode);

/// Leaves the sum of all positions' encodings in `sums` of each of the shares (allreduce), or of the own one (reduce-scatter). Chunks are
/// those of `in`.
using Summing = std::function<void(const Coded& coded, Chunks shares)>;

/// An allreduce in segments of one cell for each of `parts` shares; a segment's cells follow each other, so its scales are one chunk.
void coded_allreduce(const Shape& shape, Builder& b, int32_t parts, const Summing& sum);
/// A reduce-scatter whose blocks have one cell a segment. The scales of all segments of some blocks are one chunk, so they go first.
void coded_reduce_scatter(const Shape& shape, Builder& b, const Summing& sum);

// --- sums --------------------------------------------------------------------------------------------------------------------------

/// Everybody sends its encoding of each share to the share's position, which adds them.
void direct_sum(Builder& b, const Group& group, const Coded& coded, Chunks shares);

}  // namespace isthmus::collectives
