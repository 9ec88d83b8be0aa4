// SPDX-License-Identifier: Apache-2.0
// group_sum.h.
#include "federated/group_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "federated/privacy.h"

namespace isthmus::federated {

void divide_by_weight(std::span<float> sum, double largest_weight, uint64_t weight_sum) {
  const auto factor = static_cast<float>(largest_weight / weight_of(weight_sum));
  for (float& value : sum) value *= factor;
}

Status GroupSum::begin(std::span<const float> x, double weight, const codec::Thc& thc, uint32_t chunk_elements,
                       const bootstrap::RandomSource& random) {
  const double largest = options_.rules.largest_weight;
  if (!(weight >= 0 && weight <= largest)) {
    return invalid_argument(fmt::format("a weight of {}: weights of this cohort are from 0 to {}", weight, largest));
  }
  // A late vector takes part with what room its member's weight leaves, so that no weight is beyond the largest.
  if (carried_.size() != x.size()) carried_weight_ = 0;
  const double room = largest - weight, carries = std::min(room, carried_weight_);
  const double share = carried_weight_ > 0 ? carries / carried_weight_ : 0;
  weight_ = units_of_weight(weight + carries);
  const auto factor = static_cast<float>(weight / largest);
  vector_.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    vector_[i] = x[i] * factor;
    if (share > 0) vector_[i] += carried_[i] * static_cast<float>(share);
  }
  if (options_.rules.masked) {
    const auto wrong = std::find_if(vector_.begin(), vector_.end(), [](float v) { return !std::isfinite(v); });
    if (wrong != vector_.end()) {
      return invalid_argument(
          fmt::format("element {} of a masked contribution is not finite, and nobody could find out afterwards whose "
                      "it was",
                      wrong - vector_.begin()));
    }
    limit(thc, chunk_elements);
    if (options_.noise > 0) ISTHMUS_TRY(add_noise(random));
  }
  if (options_.late == LatePolicy::carry) sent_ = vector_;
  return {};
}

Contribution GroupSum::contribution() {
  return {.in = vector_.data(),
          .out = vector_.data(),
          .signature = {.count = vector_.size(), .type = DataType::float32, .op = ReduceOp::sum},
          .weight = weight_};
}

/// Each group of the codec by itself, down to the public limit.
void GroupSum::limit(const codec::Thc& thc, uint32_t chunk_elements) {
  const AggregateGrid grid(thc, vector_.size(), chunk_elements);
  largest_before_clip_ = 0;
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const uint64_t elements = grid.elements(chunk);
    for (uint64_t at = 0; at < thc.groups(elements); ++at) {
      const codec::Piece group = thc.group(elements, at);
      float* const first = vector_.data() + grid.begin(chunk) + group.begin;
      const uint64_t count = group.stride > 1 ? group.elements : std::min<uint64_t>(group.elements, elements - group.begin);
      double squares = 0;
      for (uint64_t i = 0; i < count; ++i) squares += double{first[i * group.stride]} * first[i * group.stride];
      const double rms = std::sqrt(squares / group.elements);
      largest_before_clip_ = std::max(largest_before_clip_, rms);
      if (rms <= options_.rules.clip) continue;
      const auto factor = static_cast<float>(options_.rules.clip / rms);
      for (uint64_t i = 0; i < count; ++i) first[i * group.stride] *= factor;
    }
  }
}

Status GroupSum::add_noise(const bootstrap::RandomSource& random) {
  if (masking_ == nullptr) return internal_error("noise without cryptography");
  const double sigma = options_.noise * options_.rules.clip * std::sqrt(static_cast<double>(vector_.size()));
  return add_gaussian(*masking_, random, sigma, vector_);
}

Status GroupSum::finish(uint64_t weight_sum, bool counted, std::span<float> mean) {
  if (counted || options_.late == LatePolicy::drop) {
    carried_.clear();
    carried_weight_ = 0;
  } else {
    carried_ = std::move(sent_);
    carried_weight_ = weight_of(weight_) * options_.carry_factor;
    for (float& value : carried_) value *= static_cast<float>(options_.carry_factor);
  }
  sent_.clear();
  if (weight_sum == 0) return invalid_usage("the weights of this round add up to 0: there is no mean");
  divide_by_weight(vector_, options_.rules.largest_weight, weight_sum);
  std::copy_n(vector_.begin(), mean.size(), mean.begin());
  return {};
}

}  // namespace isthmus::federated
