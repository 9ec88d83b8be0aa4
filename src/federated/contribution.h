// SPDX-License-Identifier: Apache-2.0
// One rank's side of the arithmetic: its vector's scales, indices and the decoded sum, chunk by chunk. Used by Contributor; what is
// needed of the other side's messages is checked there. Nothing here can fail.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "federated/aggregate_grid.h"
#include "federated/aggregate_messages.h"
#include "kernels/reduce.h"

namespace isthmus::federated {

/// A vector in user memory, and where its sum goes; `out` may be `in`.
struct Contribution {
  const void* in = nullptr;
  void* out = nullptr;
  Signature signature;
  uint64_t weight = 0;  ///< to a cohort's sum, in kWeightUnit; the vector has been scaled by it already
};

class Coding {
 public:
  Coding(const codec::Thc& thc, const kernels::Target& target, const kernels::CodecKey& key, uint32_t chunk_elements,
         const Contribution& contribution, Form form = Form::indices)
      : thc_(thc),
        target_(target),
        key_(key),
        contribution_(contribution),
        grid_(thc, contribution.signature.count, chunk_elements, form, kMaxWordBits) {}

  [[nodiscard]] const AggregateGrid& grid() const { return grid_; }
  /// Of words: before they are made or read.
  void set_bits(uint32_t bits) { grid_.set_bits(bits); }
  /// Writes the own scales of a chunk's groups to their places among all `scales`, 4 bytes each.
  void measure(uint32_t chunk, std::span<std::byte> scales);
  /// Encodes a chunk to `indices` (grid().index_bytes) by the common scales.
  void encode(uint32_t chunk, std::span<const std::byte> scales, std::span<std::byte> indices);
  /// Decodes a chunk's sum of `summands` contributions into the output.
  void decode(uint32_t chunk, std::span<const std::byte> scales, std::span<const std::byte> sum, uint32_t summands);
  /// The same as words (grid().words()): levels or integers.
  void encode_words(uint32_t chunk, std::span<const std::byte> scales, std::span<uint32_t> words);
  void decode_words(uint32_t chunk, std::span<const std::byte> scales, std::span<const uint32_t> words, uint32_t summands);

 private:
  /// Groups of a chunk, with their place in the vector and among all scales.
  template <typename Body>
  void for_each_group(uint32_t chunk, const Body& body);
  void encode_with_room(uint32_t chunk, uint32_t room, std::span<const std::byte> scales, std::span<std::byte> to);
  void decode_with_room(uint32_t chunk, uint32_t room, std::span<const std::byte> scales, std::span<const std::byte> sum,
                        uint32_t summands);
  [[nodiscard]] size_t bytes_at(uint64_t element) const { return element * size_of(contribution_.signature.type); }

  const codec::Thc& thc_;
  const kernels::Target& target_;
  kernels::CodecKey key_;
  Contribution contribution_;
  AggregateGrid grid_;
  std::vector<std::byte> wide_;  ///< a chunk's levels, 16 bits each
  alignas(64) std::array<float, codec::kMaxGroup> work_{};
};

}  // namespace isthmus::federated
