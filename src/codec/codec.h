// SPDX-License-Identifier: Apache-2.0
// What a codec *is* (name, encoded layout, algebra), not how it computes: kernels/ does that. Read by plan/, collectives/,
// kernels/ and exec/. Descriptors are constants; lookups fail only by returning null.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace isthmus::codec {

struct Thc;

/// Elements of a cell that are encoded at once, apart from all others.
struct Piece {
  uint64_t first;     ///< where its encoding begins, in elements of the cell
  uint64_t begin;     ///< its first element's place in the cell
  uint64_t stride;    ///< from one of its elements to the next: 1, or the columns of a matrix that it is a column of
  uint32_t elements;  ///< of its encoding; what lies past the cell's end is zero
};

/// A codec's algebra, as far as plans are concerned.
struct Codec {
  std::string_view name;
  uint16_t id;              ///< travels in call keys; 0 is "none"
  bool homomorphic;         ///< encoded values may be added without decoding
  bool needs_scale;         ///< encode must follow a max-exchange over all contributors
  uint32_t block_elements;  ///< grid cells are aligned to this; a block is never split
  uint32_t max_summands;    ///< an accumulated value may hold at most this many encodings
  /// Bytes of `elements` encoded elements once `summands` encodings have been added (widths may grow with summands).
  uint64_t (*encoded_bytes)(const Codec& self, uint64_t elements, uint32_t summands);
  /// Bytes of the scales of `elements` elements; 0 where needs_scale is false.
  uint64_t (*scale_bytes)(const Codec& self, uint64_t elements);
  const Thc* thc = nullptr;  ///< the tables of "thc" (thc.h), which differ by configuration and number of ranks; null for others
};

/// How many pieces a cell of `elements` has, and which elements the index-th is made of.
uint64_t pieces(const Codec& codec, uint64_t elements);
Piece piece(const Codec& codec, uint64_t elements, uint64_t index);

/// Elements of a piece, for codecs without groups of their own: a multiple of every block.
inline constexpr uint32_t kPieceElements = 4096;

/// The codecs without parameters, in id order: bf16, int8, int4. "none" is a null pointer; "thc" is made by make_thc (thc.h).
std::span<const Codec* const> registry();

/// The codec of that name, or null.
const Codec* find(std::string_view name);

}  // namespace isthmus::codec
