// SPDX-License-Identifier: Apache-2.0
// What a codec *is* (name, encoded layout, algebra), not how it computes: kernels/ does that. Read by plan/, collectives/,
// kernels/ and exec/. Descriptors are constants; lookups fail only by returning null.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace isthmus::codec {

struct Thc;

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

/// The codecs without parameters, in id order: bf16, int8, int4. "none" is a null pointer; "thc" is made by make_thc (thc.h).
std::span<const Codec* const> registry();

/// The codec of that name, or null.
const Codec* find(std::string_view name);

}  // namespace isthmus::codec
