// SPDX-License-Identifier: Apache-2.0
// contribution.h.
#include "federated/contribution.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/thc.h"

namespace isthmus::federated {
namespace {

float as_scale(std::span<const std::byte> scales, uint64_t index) { return std::bit_cast<float>(scale_at(scales, index)); }

}  // namespace

template <typename Body>
void Coding::for_each_group(uint32_t chunk, const Body& body) {
  const uint64_t elements = grid_.elements(chunk), groups = thc_.groups(elements);
  for (uint64_t at = 0; at < groups; ++at) {
    const codec::Piece group = thc_.group(elements, at);
    const kernels::ThcPlace place = {.position = grid_.begin(chunk) + group.first, .elements = group.elements};
    body(group, present(group, elements), bytes_at(grid_.begin(chunk) + group.begin), place, grid_.first_group(chunk) + at);
  }
}

void Coding::measure(uint32_t chunk, std::span<std::byte> scales) {
  for_each_group(chunk, [&](const codec::Piece& group, size_t count, size_t bytes, const kernels::ThcPlace& place, uint64_t scale) {
    const kernels::CodecInput in = {.data = static_cast<const std::byte*>(contribution_.in) + bytes,
                                    .type = contribution_.signature.type,
                                    .stride = group.stride,
                                    .count = count};
    write_scale(scales, scale, std::bit_cast<uint32_t>(kernels::thc_measure(target_, in, place.elements, work_.data())));
  });
}

void Coding::encode(uint32_t chunk, std::span<const std::byte> scales, std::span<std::byte> indices) {
  encode_with_room(chunk, 1, scales, indices);
}

void Coding::encode_with_room(uint32_t chunk, uint32_t room, std::span<const std::byte> scales, std::span<std::byte> to) {
  for_each_group(chunk, [&](const codec::Piece& group, size_t count, size_t bytes, const kernels::ThcPlace& place, uint64_t scale) {
    const kernels::CodecInput in = {.data = static_cast<const std::byte*>(contribution_.in) + bytes,
                                    .type = contribution_.signature.type,
                                    .stride = group.stride,
                                    .count = count};
    const float joined = as_scale(scales, scale);
    // Beyond it by rounding, or by rare chance where there is noise: whoever has agreed to a limit has scaled down to it. Not-a-number
    // stays.
    const float measured = kernels::thc_measure(target_, in, place.elements, work_.data()), own = measured > joined ? joined : measured;
    kernels::thc_encode(target_, to.data() + group.first / 8 * thc_.width(room), room, in, nullptr, thc_, key_, place,
                        {.own = own, .joined = joined}, work_.data());
  });
}

void Coding::decode(uint32_t chunk, std::span<const std::byte> scales, std::span<const std::byte> sum, uint32_t summands) {
  decode_with_room(chunk, AggregateGrid::room(thc_), scales, sum, summands);
}

void Coding::decode_with_room(uint32_t chunk, uint32_t room, std::span<const std::byte> scales, std::span<const std::byte> sum,
                              uint32_t summands) {
  const uint32_t multiplier = contribution_.signature.op == ReduceOp::sum ? summands : 1;
  for_each_group(chunk, [&](const codec::Piece& group, size_t count, size_t bytes, const kernels::ThcPlace& place, uint64_t scale) {
    const kernels::CodecOutput out = {.data = static_cast<std::byte*>(contribution_.out) + bytes,
                                      .type = contribution_.signature.type,
                                      .stride = group.stride,
                                      .count = count};
    kernels::thc_decode(target_, out, sum.data() + group.first / 8 * thc_.width(room), room, summands, multiplier, thc_, key_, place,
                        as_scale(scales, scale), work_.data());
  });
}

// --- words -----------------------------------------------------------------------------------------------------------------------

namespace {

/// With room for as many encodings as there may ever be, values are 16 bits wide: 64 lower bytes of a unit, then its 64 upper ones.
constexpr size_t kUnitBytes = 2 * codec::kUnitElements;

}  // namespace

void Coding::encode_words(uint32_t chunk, std::span<const std::byte> scales, std::span<uint32_t> words) {
  if (grid_.form() == Form::integers) {
    std::memcpy(words.data(), static_cast<const std::byte*>(contribution_.in) + bytes_at(grid_.begin(chunk)), words.size_bytes());
    return;
  }
  wide_.resize(grid_.units(chunk) * kUnitBytes);
  encode_with_room(chunk, thc_.max_summands(), scales, wide_);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::byte* unit = wide_.data() + i / codec::kUnitElements * kUnitBytes + i % codec::kUnitElements;
    words[i] = std::to_integer<uint32_t>(unit[0]) | std::to_integer<uint32_t>(unit[codec::kUnitElements]) << 8;
  }
}

void Coding::decode_words(uint32_t chunk, std::span<const std::byte> scales, std::span<const uint32_t> words, uint32_t summands) {
  if (grid_.form() == Form::integers) {
    std::memcpy(static_cast<std::byte*>(contribution_.out) + bytes_at(grid_.begin(chunk)), words.data(), words.size_bytes());
    return;
  }
  wide_.resize(grid_.units(chunk) * kUnitBytes);
  for (size_t i = 0; i < words.size(); ++i) {
    std::byte* unit = wide_.data() + i / codec::kUnitElements * kUnitBytes + i % codec::kUnitElements;
    unit[0] = static_cast<std::byte>(words[i]);
    unit[codec::kUnitElements] = static_cast<std::byte>(words[i] >> 8);
  }
  decode_with_room(chunk, thc_.max_summands(), scales, wide_, summands);
}

}  // namespace isthmus::federated
