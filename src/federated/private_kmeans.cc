// SPDX-License-Identifier: Apache-2.0
// private_kmeans.h.
#include "federated/private_kmeans.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "federated/nearest.h"

namespace isthmus::federated {
namespace {

uint32_t largest_step(uint64_t members) { return (1U << coordinate_bits(members)) - 1; }

/// From 0 to 2: the simplified silhouette, and one.
double silhouette_of(const Points& centres, std::span<const float> representation, uint32_t own) {
  const double a = distance(Metric::l2, centres[own], representation);
  double b = std::numeric_limits<double>::infinity();
  for (uint32_t k = 0; k < centres.size(); ++k)
    if (k != own) b = std::min(b, distance(Metric::l2, centres[k], representation));
  if (!std::isfinite(b) || std::max(a, b) == 0) return 1;
  return 1 + (b - a) / std::max(a, b);
}

bool are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

Status check(const Centres& centres, uint64_t members) {
  if (centres.count == 0 || centres.dimension == 0 || centres.values.size() != size_t{centres.count} * centres.dimension) {
    return invalid_argument(fmt::format("{} centres of dimension {} in {} numbers: there is at least one of each, and count x dimension",
                                        centres.count, centres.dimension, centres.values.size()));
  }
  if (!are_finite(centres.values)) return invalid_argument("a centre has a coordinate that is not finite");
  if (!(std::isfinite(centres.least) && std::isfinite(centres.most) && centres.least < centres.most)) {
    return invalid_argument(
        fmt::format("coordinates from {} to {}: these are two finite numbers, in that order", centres.least, centres.most));
  }
  if (members == 0 || members > kMostLloydMembers)
    return invalid_argument(fmt::format("{} members: 1 to {} can be summed", members, kMostLloydMembers));
  return {};
}

uint32_t coordinate_bits(uint64_t members) {
  const auto needed = static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(members, 1) - 1));
  return std::clamp(32U - std::min(needed, 24U), 8U, 16U);
}

Status add_to_lloyd(const Centres& centres, std::span<const float> representation, uint64_t members, std::span<uint32_t> words) {
  ISTHMUS_TRY(check(centres, members));
  if (representation.size() != centres.dimension || words.size() != lloyd_words(centres)) {
    return invalid_argument(
        fmt::format("a representation of dimension {} for centres of dimension {}", representation.size(), centres.dimension));
  }
  if (!are_finite(representation)) return invalid_argument("a representation has a coordinate that is not finite");
  const uint32_t own = nearest(Metric::l2, centres.points(), representation);
  const double steps = largest_step(members), range = double{centres.most} - centres.least;
  const std::span<uint32_t> mine = words.subspan(size_t{own} * (centres.dimension + 1), centres.dimension + 1);
  for (uint32_t i = 0; i < centres.dimension; ++i) {
    const double at = (std::clamp(representation[i], centres.least, centres.most) - double{centres.least}) / range;
    mine[i] += static_cast<uint32_t>(std::lround(at * steps));
  }
  ++mine[centres.dimension];
  words.back() += static_cast<uint32_t>(std::lround(silhouette_of(centres.points(), representation, own) * steps / 2));
  return {};
}

Result<LloydStep> finish_lloyd(const Centres& before, std::span<const uint32_t> sums, uint64_t members) {
  ISTHMUS_TRY(check(before, members));
  if (sums.size() != lloyd_words(before)) return invalid_argument("sums of another number of words");
  LloydStep step{.centres = before, .sizes = std::vector<uint32_t>(before.count)};
  const double steps = largest_step(members), range = double{before.most} - before.least;
  uint64_t all = 0;
  for (uint32_t k = 0; k < before.count; ++k) {
    const std::span<const uint32_t> mine = sums.subspan(size_t{k} * (before.dimension + 1), before.dimension + 1);
    step.sizes[k] = mine.back();
    all += mine.back();
    if (mine.back() == 0) continue;
    const std::span<float> to = std::span(step.centres.values).subspan(size_t{k} * before.dimension, before.dimension);
    for (uint32_t i = 0; i < before.dimension; ++i) {
      to[i] = static_cast<float>(before.least + range * (mine[i] / steps / mine.back()));
      if (mine[i] > steps * mine.back()) return invalid_argument(fmt::format("cluster {}'s sum is none of {} members", k, mine.back()));
    }
    step.movement = std::max(step.movement, static_cast<float>(distance(Metric::l2, before.points()[k], to)));
  }
  if (all == 0 || all > members) return invalid_argument(fmt::format("sums of {} members, where there are {}", all, members));
  if (sums.back() > steps * static_cast<double>(all)) return invalid_argument(fmt::format("a sum of silhouettes that is none of {}", all));
  step.silhouette = sums.back() / (steps / 2) / static_cast<double>(all) - 1;
  return step;
}

}  // namespace isthmus::federated
