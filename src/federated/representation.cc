// SPDX-License-Identifier: Apache-2.0
// representation.h.
#include "federated/representation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "kernels/reduce.h"

namespace isthmus::federated {
namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"label", "embedding", "class-means", "gradient"};
constexpr double kSumTolerance = 1e-4, kLengthTolerance = 1e-3;
constexpr uint32_t kMinSketch = 64, kMaxSketch = 8192;  // what the transform takes

/// What the transform wants aligned.
struct SketchWork {
  alignas(64) float piece[kMaxSketch];
  alignas(64) float rotated[kMaxSketch];
};

double length_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares);
}

Status check_samples(const Points& samples) {
  if (samples.dims == 0 || samples.values.size() % samples.dims != 0) return invalid_argument("samples are not whole rows");
  return samples.size() == 0 ? invalid_argument("a client without samples has no representation") : Status();
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

Result<RepKind> parse_rep_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end())
    return invalid_argument(fmt::format("'{}' is no representation; there are: {}", name, join(kKindNames, ", ")));
  return static_cast<RepKind>(found - kKindNames.begin());
}

std::string_view name_of(RepKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Metric metric_of(RepKind kind) { return kind == RepKind::label ? Metric::l1 : Metric::l2; }

Status check_same(const RepHeader& expected, const RepHeader& given) {
  if (expected == given) return {};
  std::string differences;
  const auto differ = [&](std::string_view what, const auto& ours, const auto& theirs) {
    if (ours != theirs) differences += fmt::format("{}{} {} instead of {}", differences.empty() ? "" : ", ", what, theirs, ours);
  };
  differ("kind", name_of(expected.kind), name_of(given.kind));
  differ("dimensions", expected.dims, given.dims);
  differ("probe", fmt::format("{:016x}", expected.probe_hash), fmt::format("{:016x}", given.probe_hash));
  differ("seed", expected.seed, given.seed);
  return invalid_argument(fmt::format("this representation cannot be compared with the cohort's: it has {}", differences));
}

Status check_values(const RepHeader& header, std::span<const float> values) {
  if (values.size() != header.dims) {
    return invalid_argument(fmt::format("a representation of {} numbers, where there must be {}", values.size(), header.dims));
  }
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return invalid_argument(fmt::format("number {} of the representation is {}", i, values[i]));
    if (header.kind == RepKind::label && values[i] < 0) return invalid_argument(fmt::format("label {} has the share {}", i, values[i]));
    sum += double{values[i]};
  }
  if (header.kind == RepKind::label && std::abs(sum - 1) > kSumTolerance) {
    return invalid_argument(fmt::format("shares of labels sum to {:.7g} instead of 1", sum));
  }
  if (header.kind == RepKind::gradient && std::abs(length_of(values) - 1) > kLengthTolerance) {
    return invalid_argument(fmt::format("a gradient's direction has length {:.7g} instead of 1", length_of(values)));
  }
  return {};
}

Result<std::vector<float>> label_histogram(std::span<const uint64_t> counts, double smoothing) {
  double total = smoothing * static_cast<double>(counts.size());
  for (const uint64_t count : counts) total += static_cast<double>(count);
  if (!(smoothing >= 0) || !(total > 0)) return invalid_argument("a client without samples has no label histogram");
  std::vector<float> shares;
  for (const uint64_t count : counts) shares.push_back(static_cast<float>((static_cast<double>(count) + smoothing) / total));
  return shares;
}

Result<std::vector<float>> mean_embedding(const Points& samples, bool with_deviation) {
  ISTHMUS_TRY(check_samples(samples));
  const auto rows = static_cast<double>(samples.size());
  std::vector<double> result(size_t{samples.dims} * (with_deviation ? 2 : 1));
  for (size_t i = 0; i < samples.values.size(); ++i) result[i % samples.dims] += double{samples.values[i]} / rows;
  if (!with_deviation) return floats(result);
  for (size_t i = 0; i < samples.values.size(); ++i) {
    const double residual = double{samples.values[i]} - result[i % samples.dims];
    result[samples.dims + i % samples.dims] += residual * residual / rows;
  }
  for (size_t j = samples.dims; j < result.size(); ++j) result[j] = std::sqrt(result[j]);
  return floats(result);
}

Result<std::vector<float>> class_means(const Points& samples, std::span<const uint32_t> labels, uint32_t classes) {
  ISTHMUS_ASSIGN(const std::vector<float> overall, mean_embedding(samples));
  if (labels.size() != samples.size()) return invalid_argument(fmt::format("{} labels for {} samples", labels.size(), samples.size()));
  std::vector<double> sums(size_t{classes} * samples.dims);
  std::vector<uint64_t> counts(classes);
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] >= classes)
      return invalid_argument(fmt::format("label {} of sample {}, where there are {} classes", labels[row], row, classes));
    ++counts[labels[row]];
    for (uint32_t j = 0; j < samples.dims; ++j) sums[size_t{labels[row]} * samples.dims + j] += double{samples[row][j]};
  }
  std::vector<float> means(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const uint64_t count = counts[i / samples.dims];
    means[i] = count > 0 ? static_cast<float>(sums[i] / static_cast<double>(count)) : overall[i % samples.dims];
  }
  return means;
}

Result<std::vector<float>> sketch(std::span<const float> values, uint32_t dims, uint64_t seed) {
  if (dims < kMinSketch || dims > kMaxSketch || !std::has_single_bit(dims)) {
    return invalid_argument(fmt::format("a sketch of {} numbers; it has 64, 128, 256 .. 8192", dims));
  }
  const kernels::Target& target = kernels::select_target();
  const auto group = std::clamp(static_cast<uint32_t>(std::bit_ceil(std::min<size_t>(values.size(), kMaxSketch))), dims, kMaxSketch);
  const kernels::CodecKey key{.seed = seed, .op = 0, .rank = 0, .ranks = 1};
  const auto work = std::make_unique<SketchWork>();
  std::vector<double> sums(dims);
  for (size_t first = 0; first < values.size(); first += group) {
    const size_t here = std::min<size_t>(group, values.size() - first);
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), here, work->piece);
    std::fill(work->piece + here, work->piece + group, 0.0F);
    target.thc.rotate(work->rotated, work->piece, key, {.position = first, .elements = group}, 1);
    for (uint32_t j = 0; j < dims; ++j) sums[j] += double{work->rotated[j]};
  }
  const double unit = 1 / std::sqrt(static_cast<double>(dims));
  for (double& sum : sums) sum *= unit;
  return floats(sums);
}

Result<std::vector<float>> gradient_direction(std::span<const float> gradient, uint32_t dims, uint64_t seed) {
  std::vector<float> direction(gradient.begin(), gradient.end());
  if (dims > 0) {
    ISTHMUS_ASSIGN(direction, sketch(gradient, dims, seed));
  }
  const double length = length_of(direction);
  if (!(length > 0) || !std::isfinite(length)) return invalid_argument("a gradient that is zero or not finite has no direction");
  for (float& value : direction) value = static_cast<float>(double{value} / length);
  return direction;
}

}  // namespace isthmus::federated
