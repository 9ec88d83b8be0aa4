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

/// One rank's result with a codec that rounds to the nearest level instead: the kernels' rotation, the table, no dither.
std::vector<float> nearest(const Ranks& ranks, const std::vector<float>& input, uint64_t op) {
  const codec::Thc& thc = ranks.thc();
  const kernels::Target& target = kernels::select_target();
  const kernels::CodecKey key = {.seed = 42, .op = op, .rank = 0, .ranks = 1};
  const double granularity = thc.config.granularity;
  std::vector<float> result(input.size());
  alignas(64) static float work[codec::kMaxGroup];
  for (uint64_t g = 0; g < thc.groups(input.size()); ++g) {
    const codec::Piece group = thc.group(input.size(), g);
    const kernels::ThcPlace place = {.position = group.first, .elements = group.elements};
    const double root = std::sqrt(static_cast<double>(group.elements));
    double square = 0;
    for (uint32_t i = 0; i < group.elements; ++i) square += double{input[group.begin + i]} * double{input[group.begin + i]};
    const double scale = std::sqrt(square) / root;
    target.thc.rotate(work, input.data() + group.begin, key, place, 1);
    for (uint32_t i = 0; i < group.elements; ++i) {
      const double u = (double{work[i]} / root / scale / thc.clamp + 1) * granularity / 2;
      uint32_t k = 0;
      while (k + 1 < thc.levels() && u > (thc.table[k] + thc.table[k + 1]) * 0.5) ++k;
      work[i] = static_cast<float>(2 * thc.table[k] - granularity);
    }
    target.thc.unrotate(work, key, place, static_cast<float>(scale * thc.clamp / granularity / root));
    std::copy(work, work + group.elements, result.begin() + static_cast<std::ptrdiff_t>(group.begin));
  }
  return result;
}

/// Rounding to nearest is closer at once (published: 0.0139), but what it lacks is lacking in every round.
void nearest_rows(Report& report) {
  const Vectors large = make_data(Data::gauss, 1, 1 << 18, 10);
  codec::ThcConfig config = config_of(false, false);
  config.group = 4096;
  report.row("to nearest (biased), 1 rank, once", 0.0139, nmse(nearest(Ranks({.config = config}, 1), large[0], 1), large), 0.05);
  const Vectors small = make_data(Data::gauss, 1, kElements, 10);
  const Ranks ranks({.config = config}, 1);
  std::vector<double> sum(kElements, 0.0);
  std::vector<float> mean(kElements);
  for (uint64_t round = 1; round <= 64; ++round) {
    const auto result = nearest(ranks, small[0], round);
    for (size_t i = 0; i < kElements; ++i) sum[i] += double{result[i]};
  }
  for (size_t i = 0; i < kElements; ++i) mean[i] = static_cast<float>(sum[i] / 64);
  const double gain = nmse(nearest(ranks, small[0], 1), small) / nmse(mean, small);
  report.holds(fmt::format("to nearest (control): 64 results gain {:.0f} times, less than 48", gain), gain < 48);
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
  nearest_rows(report);
}

}  // namespace isthmus::thc
