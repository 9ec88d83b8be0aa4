// SPDX-License-Identifier: Apache-2.0
// Do collectives still take as long as the plan predicts? Each call's measured time is held against its prediction; what stays off for a
// while is drift, for which links are measured again. One for each rank and plan. Made and asked by comm/drift. Pure; nothing here fails.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace isthmus::topology {

/// All that decides about drift, but for the times of comm/drift. Residuals are natural logarithms of measured over predicted times, less
/// the bias.
struct DriftLimits {
  double tolerated = 0.18;           ///< moving averages up to this are noise: a fifth more, or a sixth less
  double forgets = 0.05;             ///< weight of the latest call in the moving average (EWMA)
  uint32_t least_samples = 32;       ///< of a kind of call before anything is said of it
  double most_residual = 1;          ///< what one call may count, so that no single one, however late, decides
  double slack = 0.09, alarm = 1.5;  ///< of the sum of residuals beyond the slack (CUSUM; Page 1954), which must be above the alarm
  /// Predictions are wrong by themselves, too. So the median of the first calls counts as theirs, up to a factor of two, and whatever it is
  /// once a survey has found nothing that explains it.
  uint32_t bias_samples = 16;  ///< calls, even
  /// Where those calls scatter, what is tolerated is at least so many times their standard deviation (from the quartiles): their median is
  /// not exact, and neither are averages.
  double tolerated_deviations = 1.5, most_tolerated = 0.5;
  double most_bias = 0.7;
};

enum class Verdict : int8_t { quicker = -1, steady = 0, slower = 1 };

class Residuals {
 public:
  explicit Residuals(const DriftLimits& limits = {}) : limits_(limits) {}

  /// A call of a collective whose larger buffer had `bytes`. Times are positive. Calls count in pairs: where calls follow each other at
  /// once, one rank is late for one and early for the next, so that single calls take far less and far more than two of them on average.
  void add(Collective collective, uint64_t bytes, TimeNs measured_ns, TimeNs predicted_ns);
  /// Of the kind of call that is off most; that it is steady is said again only when it is well within what is tolerated.
  [[nodiscard]] Verdict verdict() const;
  /// That kind of call, for people: "allreduce from 1048576 bytes takes 3.90 of the time predicted, and began with 1.10 (40 calls)"; ""
  /// where all is steady.
  [[nodiscard]] std::string text() const;
  /// A new plan, or a survey: everything begins anew. `any_bias`: however wrong predictions are, it is not the links.
  void restart(bool any_bias);

 private:
  /// Calls of one collective whose sizes have the same power of two.
  struct Kind {
    uint32_t samples = 0;
    double measured_ns = 0, predicted_ns = 0;  ///< of a pair's first call
    std::vector<double> first;                 ///< until the bias is known
    double bias = 0, tolerated = 0, mean = 0;
    double above = 0, below = 0;  ///< CUSUM either way
    Verdict verdict = Verdict::steady;
  };
  static constexpr size_t kSizes = 64;

  [[nodiscard]] const Kind* worst() const;
  void learn(Kind& kind) const;
  void judge(Kind& kind);

  DriftLimits limits_;
  bool any_bias_ = false;
  int unsteady_ = 0;  ///< kinds of which something else was said last
  std::array<Kind, kSizes * kCollectives> kinds_;
};

/// What ranks see together. A rank that comes late to its calls has others wait for it, who take that for slow links, but finds their
/// messages there and is through quickly itself: so there is drift where at least half of the ranks see it and none sees the contrary.
[[nodiscard]] Verdict common_verdict(std::span<const Verdict> by_rank);

}  // namespace isthmus::topology
