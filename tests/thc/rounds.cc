// SPDX-License-Identifier: Apache-2.0
// What remains of the error when the same vector is averaged many times: with error feedback, without, with the sender's pre-scale;
// and that a codec that rounds to nearest does not get better. Called by errors.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data.h"
#include "ranks.h"
#include "report.h"

namespace isthmus::thc {
namespace {

constexpr size_t kElements = 1 << 14;
constexpr uint64_t kRounds[] = {1, 4, 16, 64, 256};

codec::ThcConfig config_of(bool prescale, bool feedback) {
  return {.granularity = 30, .overflow = 1.0 / 32, .group = 8192, .correlated = false, .prescale = prescale, .feedback = feedback};
}

/// Squared error of the mean of the first 1, 4, 16, 64, 256 results.
std::vector<double> cumulative(const codec::ThcConfig& config, const Vectors& inputs, bool fixed_rotation) {
  const auto count = static_cast<uint32_t>(inputs.size());
  const Ranks ranks({.config = config}, count);
  Vectors residuals(count, std::vector<float>(kElements, 0.0F));
  std::vector<double> sum(kElements, 0.0), errors;
  for (uint64_t round = 1; round <= 256; ++round) {
    const auto result = ranks.average(inputs, fixed_rotation ? 1 : round, config.feedback ? &residuals : nullptr);
    std::vector<float> mean(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      sum[i] += double{result[i]};
      mean[i] = static_cast<float>(sum[i] / static_cast<double>(round));
    }
    if (std::find(std::begin(kRounds), std::end(kRounds), round) != std::end(kRounds)) errors.push_back(nmse(mean, inputs));
  }
  return errors;
}

void law(Report& report, std::string_view name, std::span<const double> expected, const std::vector<double>& measured, double relative) {
  for (size_t i = 0; i < measured.size(); ++i) {
    report.row(fmt::format("{}, mean of {}", name, kRounds[i]), expected[i], measured[i], relative);
  }
}

double projection(const codec::ThcConfig& config, const Vectors& inputs) {
  const auto result = Ranks({.config = config}, 1).average(inputs, 1);
  double product = 0, energy = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    product += double{result[i]} * double{inputs[0][i]};
    energy += double{inputs[0][i]} * double{inputs[0][i]};
  }
  return product / energy;
}

}  // namespace

void multi_round_rows(Report& report) {
  report.title("The mean of many rounds, lognormal(1), groups of 8192, g=30, p=1/32");
  const Vectors one = make_data(Data::lognormal1, 1, kElements, 9);
  const Vectors four = make_data(Data::lognormal1, 4, kElements, 9);
  constexpr double kFeedback[] = {0.0195, 1.4e-3, 8.7e-5, 5.2e-6, 3.3e-7};
  constexpr double kPlain[] = {0.0193, 6.0e-3, 2.3e-3, 1.3e-3, 1.05e-3};
  constexpr double kPrescaled[] = {0.0197, 5.3e-3, 1.3e-3, 3.2e-4, 8.1e-5};
  law(report, "error feedback, 1 rank", kFeedback, cumulative(config_of(false, true), one, false), 0.3);
  law(report, "error feedback, 4 ranks", kFeedback, cumulative(config_of(false, true), four, false), 0.3);
  law(report, "without", kPlain, cumulative(config_of(false, false), one, false), 0.15);
  law(report, "pre-scaled", kPrescaled, cumulative(config_of(true, false), one, false), 0.15);
  const double fixed = cumulative(config_of(false, true), one, true).back();
  report.at_least("error feedback, the same rotation every time, of 256", 5e-6, fixed);
  const Vectors large = make_data(Data::gauss, 1, 1 << 18, 10);
  report.row("projection on the truth", 0.969, projection(config_of(false, false), large), 0, 0.005);
  report.row("projection on the truth, pre-scaled", 1.0, projection(config_of(true, false), large), 0, 0.01);
}

void unbiased_rows(Report& report) {
  report.title("The mean of 64 results against one: unbiased codecs gain 64 times");
  const Vectors inputs = make_data(Data::half_common, 4, kElements, 11);
  for (const bool correlated : {false, true}) {
    codec::ThcConfig config;
    config.correlated = correlated;
    const auto errors = cumulative(config, inputs, false);
    report.row(fmt::format("thc as it comes, {} dither", correlated ? "correlated" : "private"), 64, errors[0] / errors[3], 0.2);
  }
  codec::ThcConfig config;
  const auto fixed = cumulative(config, inputs, true);
  report.row("the same random numbers every time (control)", 1, fixed[0] / fixed[3], 0.01);
}

}  // namespace isthmus::thc
