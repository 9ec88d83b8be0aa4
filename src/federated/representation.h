// SPDX-License-Identifier: Apache-2.0
// What clients report instead of their data: a few numbers in which the drift that matters shows. Made on the client, compared by the
// cohort. All clients must use the same probe and seed, so a header travels along, and another header is an error, never a distance.
// Pure; errors are inputs of the wrong size and vectors that say nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "federated/points.h"

namespace isthmus::federated {

enum class RepKind : uint8_t {
  label,        ///< shares of labels: sees drift of P(y); needs no model
  embedding,    ///< mean of a fixed encoder's output, perhaps its deviation too: sees drift of P(x)
  class_means,  ///< mean embedding of each class, perhaps sketched: drift of P(x) that leaves the overall mean alone
  gradient,     ///< direction of a fixed probe's gradient, sketched: drift of P(y|x), and of everything else that moves a gradient
};
Result<RepKind> parse_rep_kind(std::string_view name);
std::string_view name_of(RepKind kind);
/// l1 for labels, else l2.
Metric metric_of(RepKind kind);

struct RepHeader {
  RepKind kind = RepKind::label;
  uint32_t dims = 0;
  uint64_t probe_hash = 0;  ///< of the encoder or probe and its version; 0 for labels
  uint64_t seed = 0;        ///< of the sketch

  bool operator==(const RepHeader&) const = default;
};

/// invalid_argument with the fields that differ.
Status check_same(const RepHeader& expected, const RepHeader& given);
/// Of the right length, finite; labels not negative with a sum of 1 to one in a million, gradients of length 1 to one in a thousand.
Status check_values(const RepHeader& header, std::span<const float> values);

/// counts[y] samples have label y. Shares (counts + smoothing) / (samples + smoothing * labels).
Result<std::vector<float>> label_histogram(std::span<const uint64_t> counts, double smoothing = 0);
/// The samples' mean; with_deviation: followed by the standard deviation of each dimension.
Result<std::vector<float>> mean_embedding(const Points& samples, bool with_deviation = false);
/// `classes` rows: the mean of the samples of each class. A class without samples has the mean of all.
Result<std::vector<float>> class_means(const Points& samples, std::span<const uint32_t> labels, uint32_t classes);

/// A random projection to `dims` (64, 128, .. 8192) that keeps distances to about 1 in sqrt(dims): signs from the seed and a Hadamard
/// transform, the one of codec `thc`, piece by piece.
Result<std::vector<float>> sketch(std::span<const float> values, uint32_t dims, uint64_t seed);
/// The gradient's direction, a vector of length 1; sketched unless dims is 0.
Result<std::vector<float>> gradient_direction(std::span<const float> gradient, uint32_t dims, uint64_t seed);

}  // namespace isthmus::federated
