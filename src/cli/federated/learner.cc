// SPDX-License-Identifier: Apache-2.0
// learner.h.
#include "cli/federated/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "federated/draws.h"

namespace isthmus::cli {
namespace {

using Scores = std::array<float, kDigits>;
using Hidden = std::array<float, kHidden>;

constexpr std::array<std::string_view, 2> kKindNames = {"softmax", "mlp"};
constexpr size_t kFirstLayer = size_t{kPixels + 1} * kHidden;
constexpr double kSmall = 0.01;

/// outputs <- the layer's bias + inputs * its weights; `layer` begins with them, [input, then bias][output].
void through(const float* layer, std::span<const float> inputs, std::span<float> outputs) {
  const size_t many = outputs.size();
  std::copy_n(layer + inputs.size() * many, many, outputs.begin());
  for (size_t j = 0; j < inputs.size(); ++j) {
    const float x = inputs[j];
    if (x == 0) continue;  // half of an image is empty
    const float* row = layer + j * many;
    for (size_t c = 0; c < many; ++c) outputs[c] += x * row[c];
  }
}

/// The layer's gradient is added to `to`.
void add_layer(float* to, std::span<const float> inputs, std::span<const float> slopes) {
  const size_t many = slopes.size();
  for (size_t j = 0; j < inputs.size(); ++j) {
    const float x = inputs[j];
    if (x == 0) continue;
    float* row = to + j * many;
    for (size_t c = 0; c < many; ++c) row[c] += x * slopes[c];
  }
  for (size_t c = 0; c < many; ++c) to[inputs.size() * many + c] += slopes[c];
}

Hidden hidden_of(const Model& model, std::span<const float> image) {
  Hidden hidden;
  through(model.data(), image, hidden);
  for (float& one : hidden) one = std::max(one, 0.0F);
  return hidden;
}

Scores scores_of(const Model& model, std::span<const float> image) {
  Scores scores;
  if (model.size() == kMlpParameters) {
    through(model.data() + kFirstLayer, hidden_of(model, image), scores);
  } else {
    through(model.data(), image, scores);
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
  const bool deep = model.size() == kMlpParameters;
  Hidden hidden{};
  Scores slope;
  if (deep) {
    hidden = hidden_of(model, image);
    through(model.data() + kFirstLayer, hidden, slope);
  } else {
    through(model.data(), image, slope);
  }
  normalise(slope);
  slope[label] -= 1;
  for (float& one : slope) one *= factor;
  if (!deep) return add_layer(to.data(), image, slope);
  Hidden back{};
  for (uint32_t h = 0; h < kHidden; ++h) {
    if (hidden[h] == 0) continue;
    const float* row = model.data() + kFirstLayer + size_t{h} * kDigits;
    for (uint32_t c = 0; c < kDigits; ++c) back[h] += row[c] * slope[c];
  }
  add_layer(to.data(), image, back);
  add_layer(to.data() + kFirstLayer, hidden, slope);
}

}  // namespace

Result<ModelKind> parse_model_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found != kKindNames.end()) return static_cast<ModelKind>(found - kKindNames.begin());
  return invalid_argument(fmt::format("there is no model '{}'; there are: {}", name, join(kKindNames, ", ")));
}

std::string_view name_of(ModelKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Model make_model(uint64_t seed, double deviation, uint64_t which) {
  CounterRng random = federated::draws(seed, federated::Stream::weights, which);
  Model model(kParameters);
  for (size_t i = 0; i < kPixels * kDigits; ++i) model[i] = static_cast<float>(deviation * federated::normal(random));
  return model;
}

Model first_model(ModelKind kind, uint64_t seed) {
  if (kind == ModelKind::softmax) return make_model(seed, kSmall);
  CounterRng random = federated::draws(seed, federated::Stream::weights);
  Model model(kMlpParameters);
  const auto fill = [&](size_t first, uint32_t inputs, uint32_t outputs) {
    const double deviation = std::sqrt(2.0 / inputs);
    for (size_t i = 0; i < size_t{inputs} * outputs; ++i) model[first + i] = static_cast<float>(deviation * federated::normal(random));
  };
  fill(0, kPixels, kHidden);
  fill(kFirstLayer, kHidden, kDigits);
  return model;
}

void train(Model& model, const Samples& samples, const TrainRules& rules, CounterRng& random, const std::function<bool()>& goes_on) {
  const auto size = static_cast<uint32_t>(samples.size());
  Model step(model.size());
  for (uint32_t epoch = 0; epoch < rules.epochs && (!goes_on || goes_on()); ++epoch) {
    const std::vector<uint32_t> order = federated::choose(random, size, size);
    for (uint32_t first = 0; first < size; first += rules.batch) {
      const uint32_t last = std::min(size, first + rules.batch);
      std::fill(step.begin(), step.end(), 0.0F);
      const auto factor = static_cast<float>(-rules.lr / (last - first));
      for (uint32_t i = first; i < last; ++i) add_gradient(step, model, samples.image(order[i]), samples.labels[order[i]], factor);
      for (size_t i = 0; i < model.size(); ++i) model[i] += step[i];
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
  std::vector<float> rows(samples.size() * model.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    add_gradient(std::span(rows).subspan(i * model.size(), model.size()), model, samples.image(i), samples.labels[i], 1);
  }
  return rows;
}

}  // namespace isthmus::cli
