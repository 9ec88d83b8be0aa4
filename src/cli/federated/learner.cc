// SPDX-License-Identifier: Apache-2.0
// learner.h.
#include "cli/federated/learner.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "federated/draws.h"

namespace isthmus::cli {
namespace {

using Scores = std::array<float, kDigits>;

Scores scores_of(const Model& model, std::span<const float> image) {
  Scores scores;
  std::copy_n(model.begin() + kPixels * kDigits, kDigits, scores.begin());
  for (uint32_t j = 0; j < kPixels; ++j) {
    const float x = image[j];
    if (x == 0) continue;  // half of an image is empty
    const float* row = model.data() + j * kDigits;
    for (uint32_t c = 0; c < kDigits; ++c) scores[c] += x * row[c];
  }
  return scores;
}

/// Scores to probabilities.
void normalise(Scores& scores) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - most);
  for (float& score : scores) score /= sum;
}

/// to += factor * gradient of one sample's loss.
void add_gradient(std::span<float> to, const Model& model, std::span<const float> image, uint32_t label, float factor) {
  Scores slope = scores_of(model, image);
  normalise(slope);
  slope[label] -= 1;
  for (float& one : slope) one *= factor;
  for (uint32_t j = 0; j < kPixels; ++j) {
    const float x = image[j];
    if (x == 0) continue;
    float* row = to.data() + j * kDigits;
    for (uint32_t c = 0; c < kDigits; ++c) row[c] += x * slope[c];
  }
  for (uint32_t c = 0; c < kDigits; ++c) to[kPixels * kDigits + c] += slope[c];
}

}  // namespace

Model make_model(uint64_t seed, double deviation, uint64_t which) {
  CounterRng random = federated::draws(seed, federated::Stream::weights, which);
  Model model(kParameters);
  for (size_t i = 0; i < kPixels * kDigits; ++i) model[i] = static_cast<float>(deviation * federated::normal(random));
  return model;
}

void train(Model& model, const Samples& samples, const TrainRules& rules, CounterRng& random) {
  const auto size = static_cast<uint32_t>(samples.size());
  Model step(kParameters);
  for (uint32_t epoch = 0; epoch < rules.epochs; ++epoch) {
    const std::vector<uint32_t> order = federated::choose(random, size, size);
    for (uint32_t first = 0; first < size; first += rules.batch) {
      const uint32_t last = std::min(size, first + rules.batch);
      std::fill(step.begin(), step.end(), 0.0F);
      const auto factor = static_cast<float>(-rules.lr / (last - first));
      for (uint32_t i = first; i < last; ++i) add_gradient(step, model, samples.image(order[i]), samples.labels[order[i]], factor);
      for (size_t i = 0; i < kParameters; ++i) model[i] += step[i];
    }
  }
}

double loss_of(const Model& model, const Samples& samples) {
  double sum = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    Scores scores = scores_of(model, samples.image(i));
    normalise(scores);
    sum -= std::log(std::max(double{scores[samples.labels[i]]}, 1e-30));
  }
  return samples.size() == 0 ? 0 : sum / static_cast<double>(samples.size());
}

double accuracy_of(const Model& model, const Samples& samples) {
  size_t right = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Scores scores = scores_of(model, samples.image(i));
    right += static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()) == samples.labels[i];
  }
  return samples.size() == 0 ? 0 : static_cast<double>(right) / static_cast<double>(samples.size());
}

std::vector<float> gradients_of(const Model& model, const Samples& samples) {
  std::vector<float> rows(samples.size() * kParameters);
  for (size_t i = 0; i < samples.size(); ++i) {
    add_gradient(std::span(rows).subspan(i * kParameters, kParameters), model, samples.image(i), samples.labels[i], 1);
  }
  return rows;
}

}  // namespace isthmus::cli
