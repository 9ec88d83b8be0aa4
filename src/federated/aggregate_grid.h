// SPDX-License-Identifier: Apache-2.0
// How a vector that is summed by an aggregator is cut: into chunks, each a cell of the codec, and those into groups. One definition for
// both ends. Pure values; nothing here can fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codec/thc.h"
#include "federated/words.h"

namespace isthmus::federated {

/// Chunks are whole numbers of these, so of every group.
inline constexpr uint32_t kChunkAlignElements = codec::kMaxGroup;
inline constexpr uint32_t kMaxChunkElements = 1U << 26;
inline constexpr uint64_t kMaxVectorElements = uint64_t{1} << 40;

/// Elements of a chunk of `elements` that a group really has: its last may be padded.
inline uint64_t present(const codec::Piece& group, uint64_t elements) {
  return group.stride > 1 ? group.elements : std::min<uint64_t>(group.elements, elements - group.begin);
}

/// What travels of each element.
enum class Form : uint8_t {
  indices,   ///< the codec's, and its sums
  levels,    ///< the codec's table values, as words of k bits
  integers,  ///< the elements themselves, as words of k bits: the codec has no part in it
};

class AggregateGrid {
 public:
  AggregateGrid() = default;
  /// `thc` outlives this; chunk_elements is a multiple of kChunkAlignElements. `bits`: of words.
  AggregateGrid(const codec::Thc& thc, uint64_t count, uint32_t chunk_elements, Form form = Form::indices, uint32_t bits = 0)
      : thc_(&thc),
        count_(count),
        chunk_elements_(chunk_elements),
        groups_per_chunk_(form == Form::integers ? 0 : thc.groups(chunk_elements)),
        form_(form),
        bits_(bits) {}

  [[nodiscard]] Form form() const { return form_; }
  [[nodiscard]] bool has_words() const { return form_ != Form::indices; }
  [[nodiscard]] uint32_t bits() const { return bits_; }
  void set_bits(uint32_t bits) { bits_ = bits; }
  /// Words of a chunk: levels are made for whole units.
  [[nodiscard]] size_t words(uint32_t chunk) const {
    return form_ == Form::integers ? elements(chunk) : units(chunk) * codec::kUnitElements;
  }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint32_t chunks() const { return static_cast<uint32_t>((count_ + chunk_elements_ - 1) / chunk_elements_); }
  /// A chunk's first element, and how many it has: chunk_elements, the last maybe fewer.
  [[nodiscard]] uint64_t begin(uint32_t chunk) const { return uint64_t{chunk} * chunk_elements_; }
  [[nodiscard]] uint64_t elements(uint32_t chunk) const { return std::min<uint64_t>(chunk_elements_, count_ - begin(chunk)); }
  /// Groups of the whole vector, and how many of them lie before a chunk.
  [[nodiscard]] uint64_t groups() const {
    if (form_ == Form::integers) return 0;
    const uint64_t whole = count_ / chunk_elements_;
    return whole * groups_per_chunk_ + thc_->groups(count_ - whole * chunk_elements_);
  }
  [[nodiscard]] uint64_t first_group(uint32_t chunk) const { return chunk * groups_per_chunk_; }
  /// Bytes of one rank's encoding of a chunk, and of a sum.
  [[nodiscard]] size_t index_bytes(uint32_t chunk) const {
    return has_words() ? packed_bytes(words(chunk), bits_) : encoded_bytes(chunk, 1);
  }
  [[nodiscard]] size_t sum_bytes(uint32_t chunk) const { return has_words() ? index_bytes(chunk) : encoded_bytes(chunk, room(*thc_)); }
  [[nodiscard]] size_t units(uint32_t chunk) const { return (elements(chunk) + codec::kUnitElements - 1) / codec::kUnitElements; }

  /// Sums have room for so many encodings: for all ranks, and never that of a lone one, which has the layout of indices.
  static uint32_t room(const codec::Thc& thc) { return std::max<uint32_t>(2, thc.ranks); }

 private:
  [[nodiscard]] size_t encoded_bytes(uint32_t chunk, uint32_t summands) const {
    return thc_->codec.encoded_bytes(thc_->codec, elements(chunk), summands);
  }

  const codec::Thc* thc_ = nullptr;
  uint64_t count_ = 0;
  uint32_t chunk_elements_ = kChunkAlignElements;
  uint64_t groups_per_chunk_ = 0;
  Form form_ = Form::indices;
  uint32_t bits_ = 0;
};

}  // namespace isthmus::federated
