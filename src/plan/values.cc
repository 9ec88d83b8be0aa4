// SPDX-License-Identifier: Apache-2.0
// The algebra of symbolic values. Called by the symbolic checker for every cell of every step; refuses wrong operands.
#include "plan/values.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace isthmus::plan {

namespace {

/// What was done last to make a value; the first field of its identity.
enum class Made : uint8_t { input, mapped, mapped_fused, combined, divided, divided_fused, scale, encoded, decoded };

template <typename... Fields>
uint64_t identity_of(Made made, Fields... fields) {
  Hasher hasher(static_cast<uint64_t>(made));
  (hasher.add(fields), ...);
  return hasher.value();
}

}  // namespace

Values::Values(uint32_t ranks, const codec::Codec* codec) : ranks_(ranks), words_((ranks + 63) / 64), codec_(codec) {
  values_.emplace_back();
  contributors_.resize(words_, 0);
}

Values::Id Values::add(const Value& value, Id contributors_of, Id and_of) {
  const size_t begin = contributors_.size();
  contributors_.resize(begin + words_);
  for (size_t i = 0; i < words_; ++i) {
    contributors_[begin + i] = contributors_[contributors_of * words_ + i] | contributors_[and_of * words_ + i];
  }
  values_.push_back(value);
  return static_cast<Id>(values_.size() - 1);
}

bool Values::overlap(Id a, Id b) const {
  for (size_t i = 0; i < words_; ++i) {
    if ((contributors(a)[i] & contributors(b)[i]) != 0) return true;
  }
  return false;
}

bool Values::complete(Id value) const {
  size_t total = 0;
  for (const uint64_t word : contributors(value)) total += static_cast<size_t>(__builtin_popcountll(word));
  return total == ranks_;
}

bool Values::only(Id value, uint32_t rank) const {
  for (size_t i = 0; i < words_; ++i) {
    if (contributors(value)[i] != (i == rank / 64 ? uint64_t{1} << (rank % 64) : 0)) return false;
  }
  return true;
}

std::string Values::describe(Id value) const {
  if (at(value).kind == Kind::nothing) return "nothing";
  const auto has = [&](uint32_t rank) { return (contributors(value)[rank / 64] >> (rank % 64) & 1) != 0; };
  std::string ranks;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (!has(rank)) continue;
    const uint32_t first = rank;
    while (rank + 1 < ranks_ && has(rank + 1)) ++rank;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", first);
    if (rank > first) ranks += fmt::format("-{}", rank);
  }
  return fmt::format("cell {} of ranks {}", at(value).cell, ranks);
}

Status Values::need(Id value, Kind kind) const {
  if (at(value).kind == kind) return {};
  if (at(value).kind == Kind::nothing) return internal_error("reads a cell that nobody has written");
  return internal_error(fmt::format("cannot use {} here: it holds {}", describe(value),
                                    at(value).kind == Kind::data      ? "elements"
                                    : at(value).kind == Kind::encoded ? "an encoding"
                                                                      : "scales"));
}

// --- elements --------------------------------------------------------------------------------------------------------------

Values::Id Values::input(uint32_t rank, uint32_t cell, bool raw) {
  const Id id = add({.kind = Kind::data, .raw = raw, .cell = cell, .identity = identity_of(Made::input, rank, cell)}, kNothing);
  contributors_[id * words_ + rank / 64] |= uint64_t{1} << (rank % 64);
  return id;
}

Result<Values::Id> Values::map_in(Id value, uint32_t rank, bool fused) {
  ISTHMUS_TRY(need(value, Kind::data));
  Value result = at(value);
  if (!result.raw) return internal_error(fmt::format("multiplies {} which has been multiplied", describe(value)));
  if (!only(value, rank)) return internal_error(fmt::format("multiplies {} by another rank's scalar", describe(value)));
  result.raw = false;
  result.identity = identity_of(fused ? Made::mapped_fused : Made::mapped, result.identity);
  return add(result, value);
}

Result<Values::Id> Values::combine(Id a, Id b, ReduceOp op) {
  ISTHMUS_TRY(need(a, Kind::data));
  ISTHMUS_TRY(need(b, Kind::data));
  Value result = at(a);
  if (result.cell != at(b).cell) return internal_error(fmt::format("combines {} with {}", describe(a), describe(b)));
  if (result.raw || at(b).raw) return internal_error(fmt::format("combines {} before its scalar is applied", describe(at(b).raw ? b : a)));
  if (result.divided || at(b).divided) return internal_error(fmt::format("adds to {} after its division", describe(a)));
  if (overlap(a, b)) return internal_error(fmt::format("combines {} with {}: a contribution counts twice", describe(a), describe(b)));
  // a (op) b equals b (op) a bit for bit, so the two are one association.
  const auto [low, high] = std::minmax(result.identity, at(b).identity);
  result.identity = identity_of(Made::combined, op, low, high);
  return add(result, a, b);
}

Result<Values::Id> Values::divide(Id value, bool fused) {
  ISTHMUS_TRY(need(value, Kind::data));
  Value result = at(value);
  if (result.divided) return internal_error(fmt::format("divides {} twice", describe(value)));
  if (!complete(value)) return internal_error(fmt::format("divides {} before all ranks have contributed", describe(value)));
  result.divided = true;
  result.identity = identity_of(fused ? Made::divided_fused : Made::divided, result.identity);
  return add(result, value);
}

// --- codecs ----------------------------------------------------------------------------------------------------------------

Values::Id Values::add_scale(MeasuredSet set, uint64_t identity, Id a, Id b) {
  const Value value = {
      .kind = Kind::scale, .cell = at(a).cell, .measured = static_cast<uint32_t>(measured_sets_.size()), .identity = identity};
  measured_sets_.push_back(std::move(set));
  return add(value, a, b);
}

bool Values::has_measured(const Value& scale, const Value& value) const {
  if (scale.cell != value.cell) return false;
  const auto& all = measured_[value.cell];
  const auto number = static_cast<size_t>(std::find(all.begin(), all.end(), value.identity) - all.begin());
  const MeasuredSet& set = measured_sets_[scale.measured];
  return number / 64 < set.size() && (set[number / 64] >> (number % 64) & 1) != 0;
}

Result<Values::Id> Values::measure(Id value) {
  ISTHMUS_TRY(need(value, Kind::data));
  const Value& what = at(value);
  if (what.raw) return internal_error(fmt::format("measures {} before its scalar is applied", describe(value)));
  if (measured_.size() <= what.cell) measured_.resize(what.cell + size_t{1});
  auto& all = measured_[what.cell];
  const auto number = static_cast<size_t>(std::find(all.begin(), all.end(), what.identity) - all.begin());
  if (number == all.size()) all.push_back(what.identity);
  MeasuredSet set(number / 64 + 1, 0);
  set[number / 64] = uint64_t{1} << (number % 64);
  return add_scale(std::move(set), identity_of(Made::scale, what.identity), value, kNothing);
}

/// The largest of two scales. A set's identity is the sum of its members', since a maximum depends on neither order nor repetition.
Result<Values::Id> Values::join_scales(Id a, Id b) {
  ISTHMUS_TRY(need(a, Kind::scale));
  ISTHMUS_TRY(need(b, Kind::scale));
  const uint32_t cell = at(a).cell;
  if (cell != at(b).cell) return internal_error(fmt::format("joins scales of {} and {}", describe(a), describe(b)));
  MeasuredSet joined = measured_sets_[at(a).measured];
  const MeasuredSet& more = measured_sets_[at(b).measured];
  joined.resize(std::max(joined.size(), more.size()), 0);
  uint64_t identity = at(a).identity + at(b).identity;
  for (size_t word = 0; word < more.size(); ++word) {
    for (uint64_t both = joined[word] & more[word]; both != 0; both &= both - 1) {
      identity -= identity_of(Made::scale, measured_[cell][word * 64 + static_cast<size_t>(__builtin_ctzll(both))]);
    }
    joined[word] |= more[word];
  }
  return add_scale(std::move(joined), identity, a, b);
}

Result<Values::Id> Values::encode(Id value, Id scale, Id own, uint32_t rank) {
  ISTHMUS_TRY(need(value, Kind::data));
  Value result = at(value);
  if (result.raw) return internal_error(fmt::format("encodes {} before its scalar is applied", describe(value)));
  if (codec_->needs_scale) {
    ISTHMUS_TRY(need(scale, Kind::scale));
    if (!has_measured(at(scale), result)) {
      return internal_error(fmt::format("encodes {} by a scale that has not measured it", describe(value)));
    }
    ISTHMUS_TRY(need(own, Kind::scale));
    if (at(own).cell != result.cell || at(own).identity != identity_of(Made::scale, result.identity)) {
      return internal_error(fmt::format("encodes {} with an own scale that is not its own", describe(value)));
    }
    result.token = at(scale).identity;
  }
  result.kind = Kind::encoded;
  result.summands = 1;
  result.identity = identity_of(Made::encoded, rank, result.identity, result.token);
  return add(result, value);
}

Result<Values::Id> Values::accumulate(Id a, Id b, uint32_t room_for_summands) {
  ISTHMUS_TRY(need(a, Kind::encoded));
  ISTHMUS_TRY(need(b, Kind::encoded));
  if (!codec_->homomorphic) return internal_error(fmt::format("adds encodings, which codec {} does not allow", codec_->name));
  Value result = at(a);
  if (result.cell != at(b).cell) return internal_error(fmt::format("adds encodings of {} and {}", describe(a), describe(b)));
  if (result.token != at(b).token) return internal_error(fmt::format("adds {} and {} of different scales", describe(a), describe(b)));
  if (result.divided || at(b).divided) return internal_error(fmt::format("adds to {} after its division", describe(a)));
  if (overlap(a, b)) return internal_error(fmt::format("adds {} to {}: a contribution counts twice", describe(b), describe(a)));
  result.summands += at(b).summands;
  if (result.summands > codec_->max_summands || result.summands > room_for_summands) {
    return internal_error(
        fmt::format("adds up {} encodings where there is room for {}", result.summands, std::min(codec_->max_summands, room_for_summands)));
  }
  result.identity += at(b).identity;  // integer sums are exact, so the order leaves no trace
  return add(result, a, b);
}

Result<Values::Id> Values::decode(Id encoded, Id scale, uint32_t summands) {
  ISTHMUS_TRY(need(encoded, Kind::encoded));
  Value result = at(encoded);
  if (codec_->needs_scale) {
    ISTHMUS_TRY(need(scale, Kind::scale));
    if (at(scale).identity != result.token || at(scale).cell != result.cell) {
      return internal_error(fmt::format("decodes {} by another scale than it was encoded with", describe(encoded)));
    }
  }
  if (summands != result.summands) {
    return internal_error(fmt::format("decodes {} encodings as {}", result.summands, summands));
  }
  result.kind = Kind::data;
  result.identity = identity_of(Made::decoded, result.identity, summands);
  return add({.kind = Kind::data, .divided = result.divided, .cell = result.cell, .identity = result.identity}, encoded);
}

}  // namespace isthmus::plan
