// SPDX-License-Identifier: Apache-2.0
// group_sum.h.
#include "federated/group_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "federated/privacy.h"

namespace isthmus::federated {
namespace {

constexpr double kMostDeviation = 1e15;  // its square, times many members and elements, is far from float's largest number

}  // namespace

void divide_by_weight(std::span<float> sum, double largest_weight, uint64_t weight_sum) {
  const auto factor = static_cast<float>(largest_weight / weight_of(weight_sum));
  for (float& value : sum) value *= factor;
}

Status GroupSum::check(double weight, size_t count) const {
  const GroupRules& rules = options_.rules;
  if (!(weight >= 0 && weight <= rules.largest_weight)) {
    return invalid_argument(fmt::format("a weight of {}: weights of this cohort are from 0 to {}", weight, rules.largest_weight));
  }
  if (weight > 0 && units_of_weight(weight) == 0) {
    return invalid_argument(
        fmt::format("a weight of {} would count as 0: weights are counted in 1/65536, so scale those of all members", weight));
  }
  if (!rules.masked) return {};
  if (rules.noise > 0 && masking_ == nullptr) return internal_error("noise without cryptography");
  if (const double most = std::hypot(rules.clip, noise_sigma(rules, count)); !(most <= kMostDeviation)) {
    return invalid_argument(fmt::format("a clip of {} and noise of {} give numbers of about {:.3g}: {:g} is the most that is encoded",
                                        rules.clip, rules.noise, most, kMostDeviation));
  }
  return {};
}

/// Vectors are scaled by their weight as it is counted, so that what the sum is divided by is what it was multiplied by.
Status GroupSum::begin(std::span<const float> x, double weight, const codec::Thc& thc, uint32_t chunk_elements,
                       const bootstrap::RandomSource& random) {
  ISTHMUS_TRY(check(weight, x.size()));
  if (carried_.size() != x.size()) carried_weight_ = 0;
  const uint64_t own = units_of_weight(weight);
  // A late vector takes part with what room its member's weight leaves, so that no weight is beyond the largest.
  const uint64_t carries = std::min(units_of_weight(options_.rules.largest_weight) - own, carried_weight_);
  const auto share = static_cast<float>(carries == 0 ? 0 : static_cast<double>(carries) / static_cast<double>(carried_weight_));
  const auto factor = static_cast<float>(weight_of(own) / options_.rules.largest_weight);
  weight_ = own + carries;
  vector_.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    vector_[i] = x[i] * factor;
    if (carries > 0) vector_[i] += carried_[i] * share;
  }
  if (options_.rules.masked) {
    ISTHMUS_TRY(check_finite());
    limit(thc, chunk_elements);
  }
  if (options_.late == LatePolicy::carry) sent_ = vector_;
  if (!options_.rules.masked || options_.rules.noise == 0) return {};
  return add_gaussian(*masking_, random, noise_sigma(options_.rules, x.size()), vector_);
}

Status GroupSum::check_finite() const {
  const auto wrong = std::find_if(vector_.begin(), vector_.end(), [](float v) { return !std::isfinite(v); });
  if (wrong == vector_.end()) return {};
  return invalid_argument(fmt::format(
      "element {} of a masked contribution is not finite, and nobody could find out afterwards whose it was", wrong - vector_.begin()));
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
      const uint64_t count = present(group, elements);
      double squares = 0;
      for (uint64_t i = 0; i < count; ++i) squares += double{first[i * group.stride]} * first[i * group.stride];
      const double rms = std::sqrt(squares / static_cast<double>(count));
      largest_before_clip_ = std::max(largest_before_clip_, rms);
      if (rms <= options_.rules.clip) continue;
      const auto factor = static_cast<float>(options_.rules.clip / rms);
      for (uint64_t i = 0; i < count; ++i) first[i * group.stride] *= factor;
    }
  }
}

Status GroupSum::finish(uint64_t weight_sum, bool counted, std::span<float> mean) {
  if (counted || options_.late == LatePolicy::drop) {
    carried_.clear();
    carried_weight_ = 0;
  } else {
    carried_ = std::move(sent_);
    carried_weight_ = static_cast<uint64_t>(std::llround(static_cast<double>(weight_) * options_.carry_factor));
    const auto kept = static_cast<float>(weight_ == 0 ? 0 : static_cast<double>(carried_weight_) / static_cast<double>(weight_));
    for (float& value : carried_) value *= kept;
  }
  sent_.clear();
  if (weight_sum == 0) return invalid_usage("the weights of this round add up to 0: there is no mean");
  divide_by_weight(vector_, options_.rules.largest_weight, weight_sum);
  std::copy_n(vector_.begin(), mean.size(), mean.begin());
  return {};
}

}  // namespace isthmus::federated
