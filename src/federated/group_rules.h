// SPDX-License-Identifier: Apache-2.0
// Weighted sums of a cohort: what all its members and their aggregator agree on, and how weights are counted. docs/secure-sums.md explains
// them. Pure values; nothing here can fail but check().
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "federated/mask_rules.h"

namespace isthmus::federated {

/// The sum is [w x || w]. Both sides compare these when a member joins.
struct GroupRules {
  double largest_weight = 1;  ///< w of no member is beyond; vectors are scaled by w / this
  bool masked = false;
  MaskRules masks;
  float clip = 0;    ///< masked: the root mean square that every group of elements is scaled down to, in place of the norms' exchange
  double noise = 0;  ///< masked: standard deviation of what each member adds to each element, over clip times sqrt(elements)

  friend bool operator==(const GroupRules&, const GroupRules&) = default;
};

/// Weights are counted in these, so that all multiples of it add up exactly.
inline constexpr double kWeightUnit = 1.0 / 65536;
/// No sum of kMaxContributors of these wraps.
inline constexpr double kMostWeight = 68719476736.0;  // 2^36

inline uint64_t units_of_weight(double weight) { return static_cast<uint64_t>(std::llround(weight / kWeightUnit)); }
inline double weight_of(uint64_t units) { return static_cast<double>(units) * kWeightUnit; }

/// Masked: of what each member adds to each of `count` elements.
inline double noise_sigma(const GroupRules& rules, uint64_t count) {
  return rules.noise * rules.clip * std::sqrt(static_cast<double>(count));
}
/// Masked: the scale of a group of `elements`, of which `present` are not padding, in a vector of `count`. The limit holds for those that
/// are there. Noise goes on top, with room for chance: four standard deviations of a mean square of so many squares of normal numbers.
float masked_scale(const GroupRules& rules, uint64_t count, uint64_t present, uint64_t elements);

/// "plain sums", "sums of weights up to 1, masked among at least 3 of 4 neighbours", ...
std::string to_text(const std::optional<GroupRules>& rules);

/// invalid_argument: rules that make no sense for so many ranks.
Status check(const GroupRules& rules, uint32_t ranks);

}  // namespace isthmus::federated
