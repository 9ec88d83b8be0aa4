// SPDX-License-Identifier: Apache-2.0
// privacy.h.
#include "federated/privacy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/bytes.h"

namespace isthmus::federated {
namespace {

constexpr size_t kDrawsAtOnce = 1024;
constexpr double kTau = 6.283185307179586;

/// Uniform numbers in (0, 1) that nobody can guess.
class Draws {
 public:
  Draws(Draws&&) = default;
  Draws& operator=(Draws&&) = default;
  ~Draws() { wipe(bytes_); }  // whoever has the stream can take the noise away

  static Result<Draws> make(const Masking& masking, const bootstrap::RandomSource& random) {
    Draws draws(masking);
    ISTHMUS_TRY(random(draws.key_.bytes()));
    return draws;
  }
  Result<double> next() {
    if (at_ == bytes_.size()) {
      bytes_.resize(8 * kDrawsAtOnce);
      ISTHMUS_TRY(masking_->key_stream(key_, block_++, bytes_));
      at_ = 0;
    }
    const uint64_t bits = Reader(std::span<const std::byte>(bytes_).subspan(at_, 8)).u64();
    at_ += 8;
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
  }

 private:
  explicit Draws(const Masking& masking) : masking_(&masking) {}

  const Masking* masking_;
  Secret key_;
  uint64_t block_ = 0;
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
};

double epsilon_of(double rho, double delta) { return rho == 0 ? 0 : rho + 2 * std::sqrt(rho * std::log(1 / delta)); }

}  // namespace

/// Box and Muller's method.
Status add_gaussian(const Masking& masking, const bootstrap::RandomSource& random, double sigma, std::span<float> values) {
  ISTHMUS_ASSIGN(Draws draws, Draws::make(masking, random));
  for (size_t i = 0; i < values.size(); i += 2) {
    ISTHMUS_ASSIGN(const double first, draws.next());
    ISTHMUS_ASSIGN(const double second, draws.next());
    const double radius = sigma * std::sqrt(-2 * std::log(first));
    values[i] = static_cast<float>(values[i] + radius * std::cos(kTau * second));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(values[i + 1] + radius * std::sin(kTau * second));
  }
  return {};
}

Status add_laplace(const Masking& masking, const bootstrap::RandomSource& random, double epsilon, uint64_t samples,
                   std::span<float> shares) {
  if (!(epsilon > 0)) return invalid_argument("epsilon is above 0");
  ISTHMUS_ASSIGN(Draws draws, Draws::make(masking, random));
  double sum = 0;
  std::vector<double> counts(shares.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    ISTHMUS_ASSIGN(const double draw, draws.next());
    const double centred = draw - 0.5;
    const double noise = -2 / epsilon * std::copysign(std::log1p(-2 * std::fabs(centred)), centred);
    counts[i] = std::max(0.0, shares[i] * static_cast<double>(samples) + noise);
    sum += counts[i];
  }
  for (size_t i = 0; i < shares.size(); ++i)
    shares[i] = static_cast<float>(sum > 0 ? counts[i] / sum : 1.0 / static_cast<double>(shares.size()));
  return {};
}

double PrivacyLedger::spend_laplace(double epsilon) {
  ++releases_;
  pure_ += epsilon;
  return epsilon;
}

double PrivacyLedger::spend_gaussian(double noise, double delta) {
  const double rho = 2 / (noise * noise);  // D = 2 lengths, sigma = noise lengths
  ++releases_;
  rho_ += rho;
  return epsilon_of(rho, delta);
}

double PrivacyLedger::epsilon(double delta) const { return pure_ + epsilon_of(rho_, delta); }

}  // namespace isthmus::federated
