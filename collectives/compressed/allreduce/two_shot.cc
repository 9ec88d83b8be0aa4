// SPDX-License-Identifier: Apache-2.0
// Allreduce for codecs whose encodings cannot be added: everybody sends its encoding of share p to p, who decodes, adds and encodes the sum
// anew; everybody, p too, keeps what that second encoding decodes to, so that all ranks hold the same bits. Errors twice: of each
// contribution, and of the sum.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

namespace {

constexpr plan::Tunable kTunables[] = {{"segments", 1, 64}};

void emit(const Shape& shape, Builder& b) {
  const Group all = everyone(shape);
  if (all.size == 1) return copy_alone(b);
  const auto ranks = static_cast<uint32_t>(all.size);
  b.split(ranks * shape.segments, shape.codec->block_elements);
  const Chunk out = b.out(0, b.cells()), encoded = room_for(b, out, 1), sums = room_for(b, out, 1);
  const auto sum = [&](uint32_t segment) {
    const uint32_t begin = segment * ranks, end = begin + ranks;
    const std::vector<Chunk> in = shares(b.in(begin, end), all.size), totals = shares(b.part(sums, begin, end), all.size);
    const Chunk &total = totals[static_cast<size_t>(all.position)], own = on(out, total);
    decoded_sum(b, all, in, encoded, own);
    b.encode(total, own, Chunk{}, Chunk{});
    direct_allgather(b, all, total, totals);
  };
  const auto decode = [&](uint32_t segment) {
    for (uint32_t cell = segment * ranks; cell < (segment + 1) * ranks; ++cell) {
      b.decode(b.part(out, cell, cell + 1), b.part(sums, cell, cell + 1), Chunk{}, 1);
    }
  };
  pipelined(
      shape.segments, [](uint32_t) {}, sum, decode);
}

}  // namespace

extern const plan::Algorithm compressed_allreduce_two_shot = {.name = "two_shot",
                                                              .collective = Collective::allreduce,
                                                              .needs = {.coding = plan::Coding::decoding},
                                                              .tunables = kTunables,
                                                              .steps_formula = "2 min(1, P-1)",
                                                              .bytes_formula = "2I(P-1)/P",
                                                              .emit = emit};

}  // namespace isthmus::collectives
