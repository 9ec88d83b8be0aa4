// SPDX-License-Identifier: Apache-2.0
// The training check's task: Gaussian inputs with the labels that a random network, the teacher, gives them; some labels are then replaced
// by random ones, so that no model can be perfect. Every example follows from (seed, its number) alone. Used by the trainer; cannot fail.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace training {

struct Task {
  uint64_t seed = 1;
  int features = 64;
  int classes = 10;
  int teacher_width = 16;    ///< of its one hidden layer
  double label_noise = 0.1;  ///< probability that a label is drawn anew, from all classes
};

/// A column of `inputs` (features x examples) for each label.
struct Examples {
  Eigen::MatrixXf inputs;
  std::vector<int> labels;

  [[nodiscard]] size_t size() const { return labels.size(); }
};

/// Examples [first, first + count) of the task.
Examples make_examples(const Task& task, uint64_t first, size_t count);

/// The numbers from which on examples are kept for evaluation: training never gets there.
inline constexpr uint64_t kFirstHeldOut = uint64_t{1} << 32;

/// What `rank` of `ranks` has of `count` things from `first` on: parts that differ by one thing at most.
struct Shard {
  uint64_t first = 0;
  size_t count = 0;
};
Shard shard_of(uint64_t first, size_t count, int rank, int ranks);

/// A mini-batch of `rank`: drawn with replacement, a pure function of (seed, rank, step).
void draw_batch(const Examples& from, uint64_t seed, int rank, uint64_t step, Examples& batch);

}  // namespace training
