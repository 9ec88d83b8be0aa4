// SPDX-License-Identifier: Apache-2.0
// Encodings, sums and hops, one after the other. Nothing can fail.
#include "rings.h"

#include <algorithm>
#include <cmath>

#include "base/float_types.h"
#include "base/rng.h"
#include "kernels/baseline.h"

namespace isthmus::thc {
namespace {

constexpr size_t kBlock = 32;

/// Elements of the chunk that starts its way around the ring at `rank`.
std::pair<size_t, size_t> chunk_of(size_t rank, size_t ranks, size_t elements) {
  const size_t blocks = elements / kBlock;
  return {blocks * rank / ranks * kBlock, blocks * (rank + 1) / ranks * kBlock};
}

/// One block to the levels -7 to 7 of its largest magnitude's seventh, and back.
void requantise(float* block, CounterRng& rng) {
  float largest = 0;
  for (size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(block[i]));
  if (largest == 0) return;
  const double scale = double{largest} / 7;
  for (size_t i = 0; i < kBlock; ++i) block[i] = static_cast<float>(std::floor(double{block[i]} / scale + rng.uniform()) * scale);
}

std::vector<float> divided(std::vector<float> sum, size_t ranks) {
  for (float& value : sum) value /= static_cast<float>(ranks);
  return sum;
}

}  // namespace

std::vector<float> one_shot(const codec::Codec& codec, const std::vector<float>& input, uint64_t op, uint32_t rank) {
  alignas(64) float work[codec::kPieceElements];
  const kernels::Target& target = kernels::select_target();
  std::vector<uint8_t> bytes(codec.encoded_bytes(codec, input.size(), 1));
  std::vector<float> result(input.size());
  for (uint64_t i = 0; i < codec::pieces(codec, input.size()); ++i) {
    const codec::Piece piece = codec::piece(codec, input.size(), i);
    uint8_t* at = bytes.data() + codec.encoded_bytes(codec, piece.first, 1);
    kernels::baseline_encode(target, codec, at, {.data = &input[piece.begin], .type = DataType::float32, .count = piece.elements}, nullptr,
                             {.seed = 42, .op = op, .rank = rank, .ranks = 1}, piece.first, work);
    kernels::baseline_decode(target, codec, {.data = &result[piece.begin], .type = DataType::float32, .count = piece.elements}, at, work);
  }
  return result;
}

std::vector<float> two_shots(const codec::Codec& codec, const Vectors& inputs) {
  std::vector<float> sum(inputs[0].size(), 0.0F);
  for (uint32_t rank = 0; rank < inputs.size(); ++rank) {
    const auto mine = one_shot(codec, inputs[rank], 1, rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
  }
  return one_shot(codec, divided(std::move(sum), inputs.size()), 2);
}

std::vector<float> requantised_ring(const Vectors& inputs) {
  std::vector<float> sum(inputs[0].size(), 0.0F);
  CounterRng rng(42, 1);
  for (size_t start = 0; start < inputs.size(); ++start) {
    const auto [begin, end] = chunk_of(start, inputs.size(), sum.size());
    for (size_t hop = 0; hop < inputs.size(); ++hop) {
      const auto& own = inputs[(start + hop) % inputs.size()];
      for (size_t i = begin; i < end; ++i) sum[i] += own[i];
      for (size_t i = begin; i < end; i += kBlock) requantise(&sum[i], rng);
    }
  }
  return divided(std::move(sum), inputs.size());
}

std::vector<float> bf16_ring(const Vectors& inputs) {
  const auto add = kernels::select_target().reduce[static_cast<size_t>(DataType::bfloat16)][static_cast<size_t>(ReduceOp::sum)];
  const size_t elements = inputs[0].size();
  std::vector<std::vector<BFloat16>> halves(inputs.size());
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    for (const float value : inputs[rank]) halves[rank].push_back(BFloat16::from_float(value));
  }
  std::vector<float> sum(elements);
  for (size_t start = 0; start < inputs.size(); ++start) {
    const auto [begin, end] = chunk_of(start, inputs.size(), elements);
    std::vector<BFloat16> held(&halves[start][begin], &halves[start][begin] + (end - begin));
    for (size_t hop = 1; hop < inputs.size(); ++hop) {
      add(held.data(), held.data(), &halves[(start + hop) % inputs.size()][begin], end - begin, {});
    }
    for (size_t i = begin; i < end; ++i) sum[i] = held[i - begin].to_float();
  }
  return divided(std::move(sum), inputs.size());
}

}  // namespace isthmus::thc
