// SPDX-License-Identifier: Apache-2.0
// reporter.h.
#include "cli/federated/reporter.h"

#include <cmath>
#include <utility>

#include "base/hash.h"
#include "federated/trigger.h"

namespace isthmus::cli {
namespace {

using federated::Points;
using federated::RepKind;

constexpr uint32_t kSketch = 256;
constexpr double kHysteresis = 0.05;  // a cohort's default

federated::RepHeader header_for(const EpisodeRules& rules, const Model& probe, uint64_t seed) {
  switch (rules.scenario) {
    case Scenario::rotation:
      return {.kind = RepKind::embedding, .dims = kPixels};
    case Scenario::concept_swap:
      return {.kind = RepKind::gradient, .dims = kSketch, .probe_hash = hash_bytes(std::as_bytes(std::span(probe))), .seed = seed};
    default:
      return {.kind = RepKind::label, .dims = kDigits};
  }
}

}  // namespace

Reporter::Reporter(const EpisodeRules& rules, Model probe, uint64_t seed)
    : header_(header_for(rules, probe, seed)), probe_(std::move(probe)), reported_(rules.clients) {}

Reporter::Look Reporter::look_at_gradients(const Samples& samples) const {
  const auto parameters = static_cast<uint32_t>(probe_.size());
  std::vector<float> rows = gradients_of(probe_, samples);
  const std::vector<float> mean = federated::mean_embedding({.values = rows, .dims = parameters}).value();
  double squares = 0;
  for (const float one : mean) squares += double{one} * double{one};
  const auto unit = static_cast<float>(1 / std::sqrt(squares));
  for (float& one : rows) one *= unit;  // so that they scatter as directions do
  return {.values = federated::gradient_direction(mean, kSketch, header_.seed).value(),
          .scatter = federated::scatter_of({.values = rows, .dims = parameters})};
}

Reporter::Look Reporter::look(const Samples& samples) const {
  if (header_.kind == RepKind::gradient) return look_at_gradients(samples);
  if (header_.kind == RepKind::embedding) {
    const Points images{.values = samples.images, .dims = kPixels};
    return {.values = federated::mean_embedding(images).value(), .scatter = federated::scatter_of(images)};
  }
  std::vector<uint64_t> counts(kDigits);
  for (const uint32_t label : samples.labels) ++counts[label];
  return {.values = federated::label_histogram(counts).value(), .scatter = {}};
}

bool Reporter::looks(uint32_t client, const Samples& samples, const Points& centres, uint32_t cluster) {
  const federated::Metric metric = federated::metric_of(header_.kind);
  Look now = look(samples);
  std::vector<float>& last = reported_[client];
  if (!last.empty()) {
    const uint64_t n = samples.size();
    const double threshold = header_.kind == RepKind::label ? federated::histogram_threshold(now.values, n, last, n)
                                                            : federated::mean_threshold(now.scatter, n, n);
    const bool moves = centres.size() > 0 && federated::migrate(metric, centres, now.values, cluster, kHysteresis) != cluster;
    if (!moves && !federated::has_drifted(metric, now.values, last, threshold)) return false;
  }
  last = std::move(now.values);
  return true;
}

}  // namespace isthmus::cli
