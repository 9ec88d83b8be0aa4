// SPDX-License-Identifier: Apache-2.0
// Forward and backward passes of a multi-layer perceptron (see model.h).
#include "model.h"

#include <algorithm>
#include <cmath>

#include "draws.h"

namespace training {

template <typename Scalar>
Mlp<Scalar>::Mlp(std::vector<int> widths) {
  for (size_t at = 0; at + 1 < widths.size(); ++at) {
    Layer layer = {.inputs = widths[at], .outputs = widths[at + 1], .weights = parameters_};
    layer.biases = layer.weights + static_cast<size_t>(layer.inputs * layer.outputs);
    parameters_ = layer.biases + static_cast<size_t>(layer.outputs);
    layers_.push_back(layer);
  }
  outputs_.resize(layers_.size());
}

template <typename Scalar>
void Mlp<Scalar>::initialize(uint64_t seed, std::span<Scalar> parameters) const {
  std::vector<float> drawn(parameters_);
  Draws(seed, Stream::parameters).normals(0, drawn);
  for (const Layer& layer : layers_) {
    const double scale = std::sqrt(2.0 / static_cast<double>(layer.inputs));
    for (size_t at = layer.weights; at < layer.biases; ++at) parameters[at] = static_cast<Scalar>(scale * drawn[at]);
    std::fill_n(parameters.begin() + static_cast<std::ptrdiff_t>(layer.biases), layer.outputs, Scalar{0});
  }
}

template <typename Scalar>
typename Mlp<Scalar>::Score Mlp<Scalar>::evaluate(std::span<const Scalar> parameters, const Matrix& inputs, std::span<const int> labels) {
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
  for (size_t at = 0; at < layers_.size(); ++at) {
    const Layer& layer = layers_[at];
    const Eigen::Map<const Matrix> weights(&parameters[layer.weights], layer.outputs, layer.inputs);
    const Eigen::Map<const Vector> biases(&parameters[layer.biases], layer.outputs);
    Matrix& out = outputs_[at];
    out.noalias() = weights * (at == 0 ? inputs : outputs_[at - 1]);
    out.colwise() += biases;
    if (at + 1 < layers_.size()) out = out.cwiseMax(Scalar{0});
  }
  Matrix& probabilities = outputs_.back();
  double loss = 0;
  Score score;
  for (Eigen::Index example = 0; example < probabilities.cols(); ++example) {
    auto column = probabilities.col(example);
    Eigen::Index best = 0;
    const Scalar highest = column.maxCoeff(&best);  // taken off, or exponentials would overflow
    column = (column.array() - highest).exp();
    column /= column.sum();
    const int label = labels[static_cast<size_t>(example)];
    loss -= std::log(std::max(static_cast<double>(column[label]), 1e-30));
    score.correct += best == label ? 1U : 0U;
  }
  score.loss = loss / static_cast<double>(probabilities.cols());
  return score;
}

template <typename Scalar>
typename Mlp<Scalar>::Score Mlp<Scalar>::differentiate(std::span<const Scalar> parameters, const Matrix& inputs,
                                                       std::span<const int> labels, std::span<Scalar> gradient) {
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
  const Score score = evaluate(parameters, inputs, labels);
  error_ = outputs_.back();
  for (size_t example = 0; example < labels.size(); ++example) error_(labels[example], static_cast<Eigen::Index>(example)) -= Scalar{1};
  error_ /= static_cast<Scalar>(labels.size());
  for (size_t at = layers_.size(); at-- > 0;) {
    const Layer& layer = layers_[at];
    const Matrix& in = at == 0 ? inputs : outputs_[at - 1];
    Eigen::Map<Matrix>(&gradient[layer.weights], layer.outputs, layer.inputs).noalias() = error_ * in.transpose();
    Eigen::Map<Vector>(&gradient[layer.biases], layer.outputs) = error_.rowwise().sum();
    if (at == 0) break;
    below_.noalias() = Eigen::Map<const Matrix>(&parameters[layer.weights], layer.outputs, layer.inputs).transpose() * error_;
    error_ = (in.array() > Scalar{0}).select(below_, Scalar{0});
  }
  return score;
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace training
