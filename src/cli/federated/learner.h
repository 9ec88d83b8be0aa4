// SPDX-License-Identifier: Apache-2.0
// What the clients of simulated cohorts train on small images, by gradient descent: softmax regression, or a perceptron with a hidden
// layer. Deterministic; naming a kind fails with those that there are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "cli/federated/digits.h"

namespace isthmus::cli {

enum class ModelKind : uint8_t {
  softmax,  ///< 64 -> 10
  mlp,      ///< 64 -> 32 -> 10, the hidden ones cut off below zero
};
Result<ModelKind> parse_model_kind(std::string_view name);
std::string_view name_of(ModelKind kind);

inline constexpr uint32_t kHidden = 32;
inline constexpr size_t kParameters = size_t{kPixels + 1} * kDigits;  ///< of softmax: [pixel, then bias][digit]
/// [pixel, then bias][hidden], and behind it [hidden, then bias][digit].
inline constexpr size_t kMlpParameters = size_t{kPixels + 1} * kHidden + size_t{kHidden + 1} * kDigits;
constexpr size_t parameters_of(ModelKind kind) { return kind == ModelKind::mlp ? kMlpParameters : kParameters; }

struct Samples {
  std::vector<float> images;  ///< rows of kPixels
  std::vector<uint32_t> labels;

  [[nodiscard]] size_t size() const { return labels.size(); }
  [[nodiscard]] std::span<const float> image(size_t i) const { return std::span(images).subspan(i * kPixels, kPixels); }
};

using Model = std::vector<float>;  ///< its length tells its kind

/// Softmax: weights from a normal distribution, bias zero.
Model make_model(uint64_t seed, double deviation, uint64_t which = 0);
/// Of either kind, to begin with: deviation 0.01 for softmax; sqrt(2 / inputs) for each layer of the perceptron (He et al. 2015).
Model first_model(ModelKind kind, uint64_t seed);

struct TrainRules {
  double lr = 0.2;
  uint32_t batch = 10, epochs = 2;
};

/// Steps on shuffled batches, in place. `goes_on` is asked before every epoch; where it says no the rest is left out.
void train(Model& model, const Samples& samples, const TrainRules& rules, CounterRng& random, const std::function<bool()>& goes_on = {});
/// Mean cross entropy.
double loss_of(const Model& model, const Samples& samples);
double accuracy_of(const Model& model, const Samples& samples);
/// One row of model.size() for each sample: the gradient of its loss.
std::vector<float> gradients_of(const Model& model, const Samples& samples);

}  // namespace isthmus::cli
