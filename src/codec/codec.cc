// SPDX-License-Identifier: Apache-2.0
// The codecs without parameters: what can be compared with "thc", and what it falls back to.
#include "codec/codec.h"

#include <algorithm>

#include "codec/baseline.h"
#include "codec/thc.h"

namespace isthmus::codec {
namespace {

uint64_t no_scales(const Codec&, uint64_t) { return 0; }

uint64_t bf16_bytes(const Codec&, uint64_t elements, uint32_t) { return elements * 2; }

/// Every block has its scale, then its codes; the last may be short.
template <uint32_t kBits>
uint64_t block_bytes(const Codec&, uint64_t elements, uint32_t) {
  return (elements + kBlockElements - 1) / kBlockElements * block_stride(kBits);
}

/// Neither added nor scaled beforehand.
constexpr Codec plain(std::string_view name, uint16_t id, uint64_t (*bytes)(const Codec&, uint64_t, uint32_t)) {
  return {.name = name,
          .id = id,
          .homomorphic = false,
          .needs_scale = false,
          .block_elements = kBlockElements,
          .max_summands = 1,
          .encoded_bytes = bytes,
          .scale_bytes = no_scales};
}

constexpr Codec kBf16 = plain("bf16", kBf16Id, bf16_bytes), kInt8 = plain("int8", kInt8Id, block_bytes<8>),
                kInt4 = plain("int4", kInt4Id, block_bytes<4>);
constexpr const Codec* kRegistry[] = {&kBf16, &kInt8, &kInt4};

}  // namespace

uint64_t pieces(const Codec& codec, uint64_t elements) {
  return codec.thc != nullptr ? codec.thc->groups(elements) : (elements + kPieceElements - 1) / kPieceElements;
}

Piece piece(const Codec& codec, uint64_t elements, uint64_t index) {
  if (codec.thc != nullptr) return codec.thc->group(elements, index);
  const uint64_t first = index * kPieceElements;
  return {first, first, 1, static_cast<uint32_t>(std::min<uint64_t>(kPieceElements, elements - first))};
}

std::span<const Codec* const> registry() { return kRegistry; }

const Codec* find(std::string_view name) {
  for (const Codec* codec : registry()) {
    if (codec->name == name) return codec;
  }
  return nullptr;
}

}  // namespace isthmus::codec
