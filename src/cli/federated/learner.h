// SPDX-License-Identifier: Apache-2.0
// Softmax regression on small images by gradient descent: what the clients of a simulated cohort train. Deterministic; nothing fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "cli/federated/digits.h"

namespace isthmus::cli {

inline constexpr size_t kParameters = size_t{kPixels + 1} * kDigits;  ///< [pixel, then bias][digit]

struct Samples {
  std::vector<float> images;  ///< rows of kPixels
  std::vector<uint32_t> labels;

  [[nodiscard]] size_t size() const { return labels.size(); }
  [[nodiscard]] std::span<const float> image(size_t i) const { return std::span(images).subspan(i * kPixels, kPixels); }
};

using Model = std::vector<float>;  ///< kParameters of them

/// Weights from a normal distribution, bias zero.
Model make_model(uint64_t seed, double deviation, uint64_t which = 0);

struct TrainRules {
  double lr = 0.2;
  uint32_t batch = 10, epochs = 2;
};

/// Steps on shuffled batches, in place.
void train(Model& model, const Samples& samples, const TrainRules& rules, CounterRng& random);
/// Mean cross entropy.
double loss_of(const Model& model, const Samples& samples);
double accuracy_of(const Model& model, const Samples& samples);
/// One row of kParameters for each sample: the gradient of its loss.
std::vector<float> gradients_of(const Model& model, const Samples& samples);

}  // namespace isthmus::cli
