// SPDX-License-Identifier: Apache-2.0
// contribution.h.
#include "federated/contribution.h"

#include <algorithm>
#include <bit>

#include "kernels/thc.h"

namespace isthmus::federated {
namespace {

/// Elements of a chunk that a group really has: its last may be padded.
size_t present(const codec::Piece& group, uint64_t chunk_elements) {
  return group.stride > 1 ? group.elements : std::min<uint64_t>(group.elements, chunk_elements - group.begin);
}

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
  for_each_group(chunk, [&](const codec::Piece& group, size_t count, size_t bytes, const kernels::ThcPlace& place, uint64_t scale) {
    const kernels::CodecInput in = {.data = static_cast<const std::byte*>(contribution_.in) + bytes,
                                    .type = contribution_.signature.type,
                                    .stride = group.stride,
                                    .count = count};
    const float own = kernels::thc_measure(target_, in, place.elements, work_.data());
    kernels::thc_encode(target_, indices.data() + group.first / 8 * thc_.width(1), 1, in, nullptr, thc_, key_, place,
                        {.own = own, .joined = as_scale(scales, scale)}, work_.data());
  });
}

void Coding::decode(uint32_t chunk, std::span<const std::byte> scales, std::span<const std::byte> sum, uint32_t summands) {
  const uint32_t room = AggregateGrid::room(thc_);
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

}  // namespace isthmus::federated
