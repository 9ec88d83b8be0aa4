// SPDX-License-Identifier: Apache-2.0
// One member's side of a cohort's weighted sum above Contributor: scales its vector by its weight, limits and noises it, carries what came
// too late to the next round, and turns the sum into the weighted mean. Used by api/, cli/ and tests. Fails on what cannot be summed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/thc.h"
#include "federated/contributor.h"
#include "federated/group_rules.h"
#include "kernels/reduce.h"

namespace isthmus::federated {

/// What becomes of a vector that came too late for its round.
enum class LatePolicy : uint8_t {
  drop,   ///< it is gone; its member has the round's mean like everybody
  carry,  ///< it is added to what the member contributes next, with less weight
};

struct GroupOptions {
  GroupRules rules;
  LatePolicy late = LatePolicy::drop;
  double carry_factor = 0.5;  ///< per round of age
};

/// A sum of vectors that were scaled by weight / largest weight becomes their weighted mean. weight_sum: in kWeightUnit, not 0.
void divide_by_weight(std::span<float> sum, double largest_weight, uint64_t weight_sum);

class GroupSum {
 public:
  /// `thc` and `masking` outlive it; `masking` may be null without noise.
  GroupSum(const GroupOptions& options, const Masking* masking) : options_(options), masking_(masking) {}

  /// Takes x and w in; contribution() is for Contributor::begin. `thc` and `chunk_elements` are those of the aggregator. invalid_argument:
  /// a weight out of range, or above 0 and less than half a kWeightUnit; masked: elements that are not finite, because masks would hide
  /// where they come from.
  Status begin(std::span<const float> x, double weight, const codec::Thc& thc, uint32_t chunk_elements,
               const bootstrap::RandomSource& random);
  [[nodiscard]] Contribution contribution();
  /// mean <- the weighted mean, from the sum that Contributor has made of it. The same bits for the same sum. `counted`: whether this
  /// member is in it. invalid_usage: the weights add up to 0, so there is no mean.
  Status finish(uint64_t weight_sum, bool counted, std::span<float> mean);
  /// The call has failed: what was to be carried still is.
  void abandon() { sent_.clear(); }

  /// Of the latest begin(): the largest root mean square of a group, before it was limited.
  [[nodiscard]] double largest_before_clip() const { return largest_before_clip_; }
  /// Weight that is carried to the next round; 0: none.
  [[nodiscard]] double carried() const { return weight_of(carried_weight_); }

 private:
  [[nodiscard]] Status check(double weight, size_t count) const;
  [[nodiscard]] Status check_finite() const;
  void limit(const codec::Thc& thc, uint32_t chunk_elements);

  GroupOptions options_;
  const Masking* masking_;
  std::vector<float> vector_;  ///< w x, scaled; then the sum
  std::vector<float> sent_;    ///< what was contributed, without its noise, while it may have to be carried
  std::vector<float> carried_;
  uint64_t weight_ = 0, carried_weight_ = 0;  ///< of vector_ and carried_, in kWeightUnit
  double largest_before_clip_ = 0;
};

}  // namespace isthmus::federated
