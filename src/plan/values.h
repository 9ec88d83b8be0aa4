// SPDX-License-Identifier: Apache-2.0
// What a memory cell can hold, without data: whose contributions, and how they were put together. Used by the symbolic checker.
// Each operation refuses operands that would make the result wrong, and says why (internal_error).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "codec/codec.h"

namespace isthmus::plan {

class Values {
 public:
  /// Refers to a value; 0 is what a cell holds that nobody wrote.
  using Id = uint32_t;
  static constexpr Id kNothing = 0;

  /// Contributors are numbered 0..ranks-1.
  Values(uint32_t ranks, const codec::Codec* codec);

  /// One rank's own elements of a grid cell. `raw`: PreMulSum's scalar has yet to meet them.
  Id input(uint32_t rank, uint32_t cell, bool raw);
  /// `rank` multiplies its own elements. Fused: not rounded before they are combined.
  [[nodiscard]] Result<Id> map_in(Id value, uint32_t rank, bool fused);
  /// a (op) b, of the same cell and different contributors.
  [[nodiscard]] Result<Id> combine(Id a, Id b, ReduceOp op);
  /// avg's division of a complete sum. Fused: the sum is not rounded before.
  [[nodiscard]] Result<Id> divide(Id value, bool fused);

  // Codecs. A scale is the set of values that were measured; it fits what it has measured. Encodings may be added, in any order,
  // if they were made with the same scale.
  [[nodiscard]] Result<Id> measure(Id value);
  [[nodiscard]] Result<Id> join_scales(Id a, Id b);
  [[nodiscard]] Result<Id> encode(Id value, Id scale, Id own, uint32_t rank);
  [[nodiscard]] Result<Id> accumulate(Id a, Id b, uint32_t room_for_summands);
  [[nodiscard]] Result<Id> decode(Id encoded, Id scale, uint32_t summands);

  [[nodiscard]] bool is_data(Id value) const { return at(value).kind == Kind::data; }
  [[nodiscard]] bool is_raw(Id value) const { return at(value).raw; }
  [[nodiscard]] bool is_divided(Id value) const { return at(value).divided; }
  [[nodiscard]] uint32_t cell(Id value) const { return at(value).cell; }
  /// Equal if and only if the values are the same bits whatever the data: the same association of the same contributions.
  [[nodiscard]] uint64_t identity(Id value) const { return at(value).identity; }
  /// True if every rank has contributed.
  [[nodiscard]] bool complete(Id value) const;
  /// True if it is one rank's own contribution.
  [[nodiscard]] bool only(Id value, uint32_t rank) const;
  /// "cell 3 of ranks 0-2,5", with numbers as in the constructor.
  [[nodiscard]] std::string describe(Id value) const;

 private:
  enum class Kind : uint8_t { nothing, data, scale, encoded };
  struct Value {
    Kind kind = Kind::nothing;
    bool raw = false;
    bool divided = false;
    uint32_t summands = 0;  ///< encoded
    uint32_t cell = 0;
    uint32_t measured = 0;  ///< scale: index into measured_sets_
    uint64_t token = 0;     ///< encoded: identity of its scale
    uint64_t identity = 0;
  };

  [[nodiscard]] const Value& at(Id value) const { return values_[value]; }
  [[nodiscard]] std::span<const uint64_t> contributors(Id value) const { return {contributors_.data() + value * words_, words_}; }
  [[nodiscard]] bool overlap(Id a, Id b) const;
  [[nodiscard]] Status need(Id value, Kind kind) const;
  Id add(const Value& value, Id contributors_of, Id and_of = kNothing);
  /// A set of what has been measured in one cell: bit i stands for the i-th of it.
  using MeasuredSet = std::vector<uint64_t>;
  Id add_scale(MeasuredSet set, uint64_t identity, Id a, Id b);
  [[nodiscard]] bool has_measured(const Value& scale, const Value& value) const;

  uint32_t ranks_;
  size_t words_;  ///< of a set of contributors
  const codec::Codec* codec_;
  std::vector<Value> values_;
  std::vector<uint64_t> contributors_;           ///< words_ per value: bit r of the set is rank r
  std::vector<std::vector<uint64_t>> measured_;  ///< by cell: the identities of what has been measured there
  std::vector<MeasuredSet> measured_sets_;       ///< of each scale
};

}  // namespace isthmus::plan
