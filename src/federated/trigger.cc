// SPDX-License-Identifier: Apache-2.0
// trigger.h.
#include "federated/trigger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "federated/nearest.h"

namespace isthmus::federated {

std::string_view name_of(Cause cause) {
  constexpr std::array<std::string_view, 7> kNames = {"none",         "first",        "centres moved", "spread grew",
                                                      "small cohort", "empty cohort", "asked"};
  return kNames[static_cast<size_t>(cause)];
}

double noise_of_move(double scatter, uint64_t then, uint64_t now, uint64_t kept) {
  if (then == 0 || now == 0) return 0;
  const auto n = static_cast<double>(then), m = static_cast<double>(now);
  return scatter * (1 / n + 1 / m - 2 * static_cast<double>(kept) / (n * m));
}

double rho_of(Metric metric, const Points& now, const Points& reference, std::span<const uint64_t> sizes, double theta,
              std::span<const double> noise) {
  double farthest = 0;
  for (size_t k = 0; k < now.size(); ++k) {
    if (sizes[k] == 0) continue;
    double move = distance(metric, now[k], reference[k]);
    if (!noise.empty()) move = std::sqrt(std::max(move * move - noise[k], 0.0));
    farthest = std::max(farthest, move);
  }
  if (farthest == 0) return 0;
  return theta > 0 ? farthest / theta : std::numeric_limits<double>::infinity();
}

Cause decide(const TriggerRules& rules, const Signs& signs) {
  if (signs.rho > 2 * rules.tau) return Cause::centres_moved;
  if (signs.rounds_since < rules.cooldown_rounds) return Cause::none;
  if (signs.rho > rules.tau) return Cause::centres_moved;
  if (signs.spread > rules.spread_factor * signs.reference_spread) return Cause::spread_grew;
  if (signs.smallest < rules.min_cohort) return Cause::small_cohort;
  return signs.longest_empty > rules.empty_rounds ? Cause::empty_cohort : Cause::none;
}

uint32_t migrate(Metric metric, const Points& centres, std::span<const float> row, uint32_t old, double hysteresis) {
  const uint32_t best = nearest(metric, centres, row);
  return distance(metric, centres[best], row) < (1 - hysteresis) * distance(metric, centres[old], row) ? best : old;
}

}  // namespace isthmus::federated
