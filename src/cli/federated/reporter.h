// SPDX-License-Identifier: Apache-2.0
// What simulated clients report, and when: the representation that fits a scenario, held against the last one that was reported. Nothing
// fails.
#pragma once

#include <vector>

#include "cli/federated/episode.h"
#include "federated/detection.h"
#include "federated/representation.h"

namespace isthmus::cli {

class Reporter {
 public:
  /// Histograms for label and dirichlet, mean images for rotation, gradients of `probe` for concept.
  Reporter(const EpisodeRules& rules, Model probe, uint64_t seed);

  [[nodiscard]] const federated::RepHeader& header() const { return header_; }
  /// Looks at new data. True if the client reports: for the first time, because more than noise has changed, or because another one of the
  /// cohort's centres is nearer than the one of its cluster.
  bool looks(uint32_t client, const Samples& samples, const federated::Points& centres = {}, uint32_t cluster = 0);
  [[nodiscard]] std::span<const float> values(uint32_t client) const { return reported_[client]; }

 private:
  struct Look {
    std::vector<float> values;
    federated::Scatter scatter;  ///< where the threshold is a mean's
  };
  [[nodiscard]] Look look(const Samples& samples) const;
  [[nodiscard]] Look look_at_gradients(const Samples& samples) const;

  federated::RepHeader header_;
  Model probe_;
  std::vector<std::vector<float>> reported_;  ///< by client
};

}  // namespace isthmus::cli
