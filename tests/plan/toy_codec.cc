// SPDX-License-Identifier: Apache-2.0
// The toy codec and the allreduce over it. Called by the plan proofs and unit tests.
#include "toy_codec.h"

#include "plan/builder.h"

namespace isthmus::plan {

namespace {

uint64_t encoded_bytes(const codec::Codec&, uint64_t elements, uint32_t summands) { return (elements + 3) / 4 * (summands > 15 ? 4 : 2); }
uint64_t scale_bytes(const codec::Codec&, uint64_t elements) { return (elements + 3) / 4 * sizeof(float); }

/// The largest scale of all ranks: everybody tells everybody.
Chunk exchange_scales(const Group& group, Builder& b, const Chunk& measured) {
  const Chunk joined = b.scratch(measured.begin, measured.end, Layout::scale);
  Chunk scale = measured;
  for (int32_t at = 1; at < group.size; ++at) {
    b.send(group.wrap(group.position + at), measured);
    b.recv_reduce_scale(group.wrap(group.position - at), joined, scale);
    scale = joined;
  }
  return scale;
}

void emit(const Shape& shape, Builder& b) {
  const Group& group = shape.group;
  const auto ranks = static_cast<uint32_t>(group.size);
  const auto own = static_cast<uint32_t>(group.position);
  b.split(ranks, kToyCodec.block_elements);
  const auto summands = static_cast<uint16_t>(group.size);
  const Chunk measured = b.scratch(0, ranks, Layout::scale);
  const Chunk sums = b.scratch(0, ranks, Layout::encoded, summands);
  b.measure(measured, b.in(0, ranks));
  const Chunk scale = exchange_scales(group, b, measured);
  b.encode(sums, b.in(0, ranks), scale, measured);
  for (int32_t at = 1; at < group.size; ++at) {
    const auto to = static_cast<uint32_t>(group.wrap(group.position + at));
    b.send(static_cast<int32_t>(to), b.part(sums, to, to + 1));
    const Chunk mine = b.part(sums, own, own + 1);
    b.recv_reduce(group.wrap(group.position - at), mine, mine);
  }
  for (int32_t at = 1; at < group.size; ++at) {
    const auto from = static_cast<uint32_t>(group.wrap(group.position - at));
    b.send(group.wrap(group.position + at), b.part(sums, own, own + 1));
    b.recv(static_cast<int32_t>(from), b.part(sums, from, from + 1));
  }
  b.decode(b.out(0, ranks), sums, scale, summands);
  b.complete(b.out(0, ranks));
}

}  // namespace

const codec::Codec kToyCodec = {.name = "toy",
                                .id = 999,
                                .homomorphic = true,
                                .needs_scale = true,
                                .block_elements = 4,
                                .max_summands = 128,
                                .encoded_bytes = encoded_bytes,
                                .scale_bytes = scale_bytes};

const Algorithm kToyAllreduce = {.name = "toy",
                                 .collective = Collective::allreduce,
                                 .needs = {.max_ranks = 16, .coding = Coding::sums},
                                 .tunables = {},
                                 .steps_formula = "3 min(1, P-1)",
                                 .bytes_formula = "",
                                 .emit = emit};

}  // namespace isthmus::plan
