// SPDX-License-Identifier: Apache-2.0
// Examples from a teacher network (see data.h).
#include "data.h"

#include <cmath>
#include <span>

#include "draws.h"

namespace training {
namespace {

std::span<float> values_of(Eigen::MatrixXf& matrix) { return {matrix.data(), static_cast<size_t>(matrix.size())}; }

/// One hidden layer of tanh units: classes are regions with curved borders.
class Teacher {
 public:
  explicit Teacher(const Task& task) : hidden_(task.teacher_width, task.features), output_(task.classes, task.teacher_width) {
    const Draws draws(task.seed, Stream::teacher);
    draws.normals(0, values_of(hidden_));
    draws.normals(static_cast<uint64_t>(hidden_.size()), values_of(output_));
    hidden_ *= 1 / std::sqrt(static_cast<float>(task.features));
  }

  [[nodiscard]] Eigen::MatrixXf scores(const Eigen::MatrixXf& inputs) const { return output_ * (hidden_ * inputs).array().tanh().matrix(); }

 private:
  Eigen::MatrixXf hidden_, output_;
};

}  // namespace

Examples make_examples(const Task& task, uint64_t first, size_t count) {
  Examples made = {.inputs = Eigen::MatrixXf(task.features, static_cast<Eigen::Index>(count)), .labels = std::vector<int>(count)};
  Draws(task.seed, Stream::inputs).normals(first * static_cast<uint64_t>(task.features), values_of(made.inputs));
  const Draws flips(task.seed, Stream::flips);
  const Draws wrong(task.seed, Stream::wrong_labels);
  const Teacher teacher(task);
  const Eigen::MatrixXf scores = teacher.scores(made.inputs);
  for (size_t at = 0; at < count; ++at) {
    const uint64_t number = first + at;
    scores.col(static_cast<Eigen::Index>(at)).maxCoeff(&made.labels[at]);
    if (flips.uniform(number) < task.label_noise) {
      made.labels[at] = static_cast<int>(wrong.below(number, static_cast<uint32_t>(task.classes)));
    }
  }
  return made;
}

Shard shard_of(uint64_t first, size_t count, int rank, int ranks) {
  const size_t begin = count * static_cast<size_t>(rank) / static_cast<size_t>(ranks);
  const size_t end = count * static_cast<size_t>(rank + 1) / static_cast<size_t>(ranks);
  return {.first = first + begin, .count = end - begin};
}

void draw_batch(const Examples& from, uint64_t seed, int rank, uint64_t step, Examples& batch) {
  const Draws draws(seed, Stream::batches);
  for (size_t at = 0; at < batch.size(); ++at) {
    // ranks are 2^44 numbers apart: more than steps x batch will ever need
    const uint64_t index = (static_cast<uint64_t>(rank) << 44) + step * batch.size() + at;
    const uint32_t chosen = draws.below(index, static_cast<uint32_t>(from.size()));
    batch.inputs.col(static_cast<Eigen::Index>(at)) = from.inputs.col(chosen);
    batch.labels[at] = from.labels[chosen];
  }
}

}  // namespace training
