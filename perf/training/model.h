// SPDX-License-Identifier: Apache-2.0
// The model of the training check: a multi-layer perceptron with rectified hidden layers and a softmax, whose parameters and gradient
// are one flat array each, as data-parallel training exchanges them. Used by the trainer, in float; in double by its test, for finite
// differences. Cannot fail.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

namespace training {

template <typename Scalar>
class Mlp {
 public:
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;

  /// Of the mean cross-entropy and the examples whose label has the highest score.
  struct Score {
    double loss = 0;
    size_t correct = 0;
  };

  /// `widths`: inputs, hidden layers, classes.
  explicit Mlp(std::vector<int> widths);

  [[nodiscard]] size_t parameters() const { return parameters_; }
  /// Weights N(0, 2 / inputs of the layer), biases 0.
  void initialize(uint64_t seed, std::span<Scalar> parameters) const;
  /// Of examples as columns of `inputs`. Nats.
  Score evaluate(std::span<const Scalar> parameters, const Matrix& inputs, std::span<const int> labels);
  /// Also gradient <- the derivative of the loss by the parameters.
  Score differentiate(std::span<const Scalar> parameters, const Matrix& inputs, std::span<const int> labels, std::span<Scalar> gradient);

 private:
  /// A layer's part of the flat arrays: weights (outputs x inputs, columns one after the other), then biases.
  struct Layer {
    Eigen::Index inputs = 0, outputs = 0;
    size_t weights = 0, biases = 0;  ///< where they begin
  };

  std::vector<Layer> layers_;
  size_t parameters_ = 0;
  std::vector<Matrix> outputs_;  ///< of each layer, for the latest examples; the last one's become probabilities
  Matrix error_, below_;         ///< derivatives by a layer's sums, and by those of the layer below
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace training
