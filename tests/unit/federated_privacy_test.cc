// SPDX-License-Identifier: Apache-2.0
// privacy.h: noise has the distribution that the guarantee is for, and the ledger adds up.
#include "federated/privacy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace isthmus::federated {
namespace {

const Masking& masking() { return *Masking::load().value(); }

TEST(Privacy, GaussianNoiseHasItsDeviation) {
  std::vector<float> values(200001, 1.0F);
  ASSERT_TRUE(add_gaussian(masking(), random_bytes, 3, values).ok());
  double sum = 0, squares = 0, fourth = 0;
  for (const float v : values) {
    sum += v - 1;
    squares += std::pow(v - 1, 2);
    fourth += std::pow(v - 1, 4);
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.05);
  EXPECT_NEAR(squares / n, 9, 0.2);
  EXPECT_NEAR(fourth / n / 81, 3, 0.2) << "and the tails of a Gaussian";
}

TEST(Privacy, NoisyHistogramsAreHistograms) {
  std::vector<float> shares = {0.5F, 0.5F, 0, 0};
  ASSERT_TRUE(add_laplace(masking(), random_bytes, 1, 40, shares).ok());
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-5);
  for (const float share : shares) EXPECT_GE(share, 0);
  EXPECT_FALSE(add_laplace(masking(), random_bytes, 0, 40, shares).ok());
  // Scale 2 / epsilon on counts: mean absolute deviation is the scale, seen where nothing is cut off.
  double deviation = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<float> two = {0.5F, 0.5F};
    ASSERT_TRUE(add_laplace(masking(), random_bytes, 1, 100000, two).ok());
    deviation += std::fabs(two[0] - 0.5) * 2 * 100000 / kTrials;  // about the difference of two draws, each of scale 2
  }
  EXPECT_NEAR(deviation, 3, 0.3);
}

TEST(Privacy, LedgersAddUp) {
  PrivacyLedger ledger;
  EXPECT_EQ(ledger.epsilon(1e-5), 0);
  EXPECT_EQ(ledger.spend_laplace(0.5), 0.5);
  EXPECT_EQ(ledger.spend_laplace(0.25), 0.25);
  EXPECT_DOUBLE_EQ(ledger.epsilon(1e-5), 0.75);
  const double one = ledger.spend_gaussian(20, 1e-5), rho = 2.0 / 400;
  EXPECT_DOUBLE_EQ(one, rho + 2 * std::sqrt(rho * std::log(1e5)));
  ledger.spend_gaussian(20, 1e-5);
  EXPECT_DOUBLE_EQ(ledger.epsilon(1e-5), 0.75 + 2 * rho + 2 * std::sqrt(2 * rho * std::log(1e5)));
  EXPECT_EQ(ledger.releases(), 4U);
}

}  // namespace
}  // namespace isthmus::federated
