// SPDX-License-Identifier: Apache-2.0
// Noise that members add to what leaves them, and what that guarantees: differential privacy in the local model, in which nobody else need
// be trusted. Used by group sums, cohorts and `isthmus federated`. Fails only where there is no randomness. docs/secure-sums.md explains.
#pragma once

#include <cstdint>
#include <span>

#include "base/masking.h"
#include "base/status.h"
#include "bootstrap/unique_id.h"

namespace isthmus::federated {

/// values += independent noise of N(0, sigma^2), from a key that is drawn for this and forgotten.
Status add_gaussian(const Masking& masking, const bootstrap::RandomSource& random, double sigma, std::span<float> values);

/// A histogram of `samples` samples as shares, with Laplace noise of scale 2 / epsilon on the counts (one sample that is another changes
/// two counts by one each), negative ones set to 0, then normalised again. All zeros become equal shares.
Status add_laplace(const Masking& masking, const bootstrap::RandomSource& random, double epsilon, uint64_t samples,
                   std::span<float> shares);

/// What one member has given away so far. Pure releases add up (basic composition); those with Gaussian noise add up as zero-concentrated
/// privacy, rho = D^2 / (2 sigma^2) each (Bun and Steinke, "Concentrated differential privacy", TCC 2016), where D is by how much two
/// inputs can differ. Neither sampling nor the others' noise is counted in one's favour.
class PrivacyLedger {
 public:
  /// epsilon of one release.
  double spend_laplace(double epsilon);
  /// `noise` is sigma over the greatest length of a vector, so D = 2 of these. Returns epsilon of this release alone, for `delta`.
  double spend_gaussian(double noise, double delta);
  /// Of everything so far, for `delta`; 0: nothing was given away.
  [[nodiscard]] double epsilon(double delta) const;
  [[nodiscard]] uint64_t releases() const { return releases_; }

 private:
  double pure_ = 0, rho_ = 0;
  uint64_t releases_ = 0;
};

}  // namespace isthmus::federated
