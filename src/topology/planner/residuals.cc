// SPDX-License-Identifier: Apache-2.0
// Residuals. See residuals.h.
#include "topology/planner/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace isthmus::topology {
namespace {

/// What is off stays off until its mean is within so much of what is tolerated.
constexpr double kHysteresis = 0.5;
constexpr double kQuartilesApart = 1.349;  ///< in standard deviations of a normal distribution

}  // namespace

void Residuals::add(Collective collective, uint64_t bytes, TimeNs measured_ns, TimeNs predicted_ns) {
  Kind& kind = kinds_[kSizes * static_cast<size_t>(collective) + static_cast<size_t>(std::bit_width(std::max<uint64_t>(bytes, 1)) - 1)];
  kind.measured_ns += static_cast<double>(std::max<TimeNs>(1, measured_ns));
  kind.predicted_ns += static_cast<double>(std::max<TimeNs>(1, predicted_ns));
  if (++kind.samples % 2 != 0) return;
  const double residual = std::log(std::exchange(kind.measured_ns, 0) / std::exchange(kind.predicted_ns, 0));
  if (kind.samples <= limits_.bias_samples) {
    kind.first.push_back(residual);
    if (kind.samples == limits_.bias_samples) learn(kind);
    return;
  }
  const double off = std::clamp(residual - kind.bias, -limits_.most_residual, limits_.most_residual);
  kind.mean += limits_.forgets * (off - kind.mean);
  kind.above = std::max(0.0, kind.above + off - limits_.slack);
  kind.below = std::max(0.0, kind.below - off - limits_.slack);
  judge(kind);
}

void Residuals::learn(Kind& kind) const {
  std::vector<double> first = std::exchange(kind.first, {});
  std::sort(first.begin(), first.end());
  const double median = first[first.size() / 2];
  const double deviation = (first[3 * first.size() / 4] - first[first.size() / 4]) / kQuartilesApart;
  kind.bias = any_bias_ ? median : std::clamp(median, -limits_.most_bias, limits_.most_bias);
  kind.tolerated = std::max(limits_.tolerated, std::min(limits_.most_tolerated, limits_.tolerated_deviations * deviation));
}

void Residuals::judge(Kind& kind) {
  const bool was_steady = kind.verdict == Verdict::steady;
  if (std::abs(kind.mean) < kHysteresis * kind.tolerated) kind.verdict = Verdict::steady;
  if (kind.samples >= limits_.least_samples) {
    if (kind.mean > kind.tolerated && kind.above > limits_.alarm) kind.verdict = Verdict::slower;
    if (kind.mean < -kind.tolerated && kind.below > limits_.alarm) kind.verdict = Verdict::quicker;
  }
  unsteady_ += (was_steady ? 1 : 0) - (kind.verdict == Verdict::steady ? 1 : 0);
}

const Residuals::Kind* Residuals::worst() const {
  const Kind* worst = nullptr;
  if (unsteady_ == 0) return worst;  // as a rule, and asked after each call
  for (const Kind& kind : kinds_) {
    if (kind.verdict != Verdict::steady && (worst == nullptr || std::abs(kind.mean) > std::abs(worst->mean))) worst = &kind;
  }
  return worst;
}

Verdict Residuals::verdict() const {
  const Kind* kind = worst();
  return kind == nullptr ? Verdict::steady : kind->verdict;
}

std::string Residuals::text() const {
  const Kind* kind = worst();
  if (kind == nullptr) return {};
  const auto place = static_cast<size_t>(kind - kinds_.data());
  return fmt::format("{} from {} bytes takes {:.2f} of the time predicted, and began with {:.2f} ({} calls)",
                     name_of(static_cast<Collective>(place / kSizes)), uint64_t{1} << place % kSizes, std::exp(kind->mean + kind->bias),
                     std::exp(kind->bias), kind->samples);
}

void Residuals::restart(bool any_bias) {
  any_bias_ = any_bias;
  kinds_ = {};
  unsteady_ = 0;
}

Verdict common_verdict(std::span<const Verdict> by_rank) {
  const auto slower = std::count(by_rank.begin(), by_rank.end(), Verdict::slower);
  const auto quicker = std::count(by_rank.begin(), by_rank.end(), Verdict::quicker);
  const auto half = static_cast<std::ptrdiff_t>(by_rank.size() + 1) / 2;
  if (quicker == 0 && slower >= half && half > 0) return Verdict::slower;
  if (slower == 0 && quicker >= half && half > 0) return Verdict::quicker;
  return Verdict::steady;
}

}  // namespace isthmus::topology
