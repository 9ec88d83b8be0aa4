// SPDX-License-Identifier: Apache-2.0
// The steps of a compressed allreduce, one after the other: measure, largest scale, encode, add, decode. Nothing can fail.
#include "ranks.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "kernels/thc.h"

namespace isthmus::thc {
namespace {

struct Work {
  alignas(64) float data[codec::kMaxGroup];
};

kernels::CodecInput input_of(const std::vector<float>& vector, const codec::Piece& group, const float* residual) {
  const size_t count = group.stride > 1 ? group.elements : std::min<size_t>(group.elements, vector.size() - group.begin);
  return {.data = vector.data() + group.begin,
          .type = DataType::float32,
          .stride = group.stride,
          .count = count,
          .residual = residual == nullptr ? nullptr : residual + group.begin};
}

}  // namespace

Ranks::Ranks(const Settings& settings, uint32_t ranks) : settings_(settings), ranks_(ranks) {
  auto made = codec::make_thc(settings.config, ranks);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().text().c_str());
    std::abort();
  }
  thc_ = std::move(made).value();
}

std::vector<Ranks::Bytes> Ranks::encode(const Vectors& inputs, uint64_t op, Vectors* residuals, std::vector<float>& scales) const {
  Work work;
  const size_t elements = inputs[0].size();
  const uint64_t groups = thc_->groups(elements);
  std::vector<uint32_t> largest(groups, 0);
  const auto group_input = [&](uint32_t rank, uint64_t g) {
    return input_of(inputs[rank], thc_->group(elements, g), residuals == nullptr ? nullptr : (*residuals)[rank].data());
  };
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    for (uint64_t g = 0; g < groups; ++g) {
      const float own = kernels::thc_measure(*settings_.target, group_input(rank, g), thc_->group(elements, g).elements, work.data);
      largest[g] = std::max(largest[g], std::bit_cast<uint32_t>(own));
    }
  }
  for (const uint32_t bits : largest) scales.push_back(std::bit_cast<float>(bits));
  std::vector<Bytes> encodings(ranks_, Bytes(thc_->codec.encoded_bytes(thc_->codec, elements, 1)));
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const kernels::CodecKey key = {.seed = settings_.seed, .op = op, .rank = rank, .ranks = ranks_};
    for (uint64_t g = 0; g < groups; ++g) {
      const codec::Piece group = thc_->group(elements, g);
      float* residual = residuals == nullptr ? nullptr : (*residuals)[rank].data() + group.begin;
      const float own = kernels::thc_measure(*settings_.target, group_input(rank, g), group.elements, work.data);
      kernels::thc_encode(*settings_.target, encodings[rank].data() + group.first / 8 * thc_->config.bits, 1, group_input(rank, g),
                          residual, *thc_, key, {.position = group.first, .elements = group.elements}, {.own = own, .joined = scales[g]},
                          work.data);
    }
  }
  return encodings;
}

Ranks::Bytes Ranks::add_two(const Bytes& a, uint32_t a_count, const Bytes& b, uint32_t b_count, uint32_t room, size_t elements) const {
  Bytes sum(thc_->codec.encoded_bytes(thc_->codec, elements, room));
  const size_t units = (elements + codec::kUnitElements - 1) / codec::kUnitElements;
  settings_.target->thc.accumulate(sum.data(), room, a.data(), a_count, b.data(), b_count, units, *thc_);
  return sum;
}

Ranks::Bytes Ranks::add_pairs(std::span<const Bytes> encodings, size_t elements) const {
  if (encodings.size() == 1) return encodings[0];
  const size_t half = (encodings.size() + 1) / 2;
  const auto count = [](size_t n) { return static_cast<uint32_t>(n); };
  const size_t rest = encodings.size() - half;
  return add_two(add_pairs(encodings.first(half), elements), count(half), add_pairs(encodings.subspan(half), elements), count(rest),
                 count(encodings.size()), elements);
}

Ranks::Bytes Ranks::add(std::span<const Bytes> encodings, size_t elements) const {
  if (settings_.order == Order::pairs) return add_pairs(encodings, elements);
  Bytes sum;
  uint32_t held = 0;
  for (uint32_t i = 0; i < ranks_; ++i) {
    const Bytes& next = encodings[settings_.order == Order::backward ? ranks_ - 1 - i : i];
    if (i == 0) {
      sum = next;
      held = 1;
      continue;
    }
    const uint32_t room = settings_.order == Order::ring ? i + 1 : ranks_;
    sum = add_two(sum, held, next, 1, room, elements);
    held = room;
  }
  return sum;
}

std::vector<float> Ranks::average(const Vectors& inputs, uint64_t op, Vectors* residuals) const {
  Work work;
  const size_t elements = inputs[0].size();
  std::vector<float> scales;
  const std::vector<Bytes> encodings = encode(inputs, op, residuals, scales);
  const Bytes sum = add(encodings, elements);
  std::vector<float> result(elements);
  const kernels::CodecKey key = {.seed = settings_.seed, .op = op, .rank = 0, .ranks = ranks_};
  for (uint64_t g = 0; g < scales.size(); ++g) {
    const codec::Piece group = thc_->group(elements, g);
    const kernels::CodecInput same = input_of(result, group, nullptr);
    const kernels::CodecOutput out = {.data = result.data() + group.begin, .type = same.type, .stride = same.stride, .count = same.count};
    kernels::thc_decode(*settings_.target, out, sum.data() + group.first / 8 * thc_->width(ranks_), ranks_, ranks_, 1, *thc_, key,
                        {.position = group.first, .elements = group.elements}, scales[g], work.data);
  }
  return result;
}

double nmse(const std::vector<float>& measured, const Vectors& inputs) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    double mean = 0;
    for (const auto& input : inputs) mean += double{input[i]};
    mean /= static_cast<double>(inputs.size());
    error += (double{measured[i]} - mean) * (double{measured[i]} - mean);
    energy += mean * mean;
  }
  return error / energy;
}

}  // namespace isthmus::thc
