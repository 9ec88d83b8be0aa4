// SPDX-License-Identifier: Apache-2.0
// Bounds and verdicts (see accuracy.h).
#include "accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "generator.h"

namespace sweep {
namespace {

constexpr uint64_t kFewElements = 1024;
constexpr double kMargin = 1.5;  // over what is predicted
constexpr double kSpread = 64;   // times 1 / sqrt(elements): how much it may vary by chance, mostly by the few elements that are clamped

/// Codecs that predict nothing: some ten times what encoding on the way to the sum and once more on the way back loses of Gaussian data.
struct Known {
  std::string_view name;
  double nmse;
};
constexpr Known kKnown[] = {{"none", 0}, {"bf16", 4e-5}, {"int8", 5e-4}, {"int4", 0.15}};

/// Half the distance between 1 and the next number.
double unit_roundoff(ncclDataType_t type) { return type == ncclFloat16 ? 0x1p-11 : type == ncclBfloat16 ? 0x1p-8 : 0x1p-24; }

/// Ranks share the scale of the loudest, so that the others' errors are as large as its own: by this much they exceed the prediction.
double loudness(const Origin& origin) {
  if (origin.op != Op::mulsum) return 1;
  double loudest = 0, sum = 0;
  for (int rank = 0; rank < origin.ranks; ++rank) {
    const double square = premul_scalar(rank) * premul_scalar(rank);
    loudest = std::max(loudest, square);
    sum += square;
  }
  return loudest * origin.ranks / sum;
}

}  // namespace

double nmse_bound(const Origin& origin) {
  if (origin.elements < kFewElements) return HUGE_VAL;
  double expected = kMargin * origin.predicted;
  if (std::isnan(expected)) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& one) { return one.name == origin.codec; });
    if (known == std::end(kKnown)) return HUGE_VAL;
    expected = known->nmse;
  }
  const double rounding = unit_roundoff(origin.type) * unit_roundoff(origin.type) * origin.ranks;  // of partial sums
  return (expected * loudness(origin) + rounding) * (1 + kSpread / std::sqrt(static_cast<double>(origin.elements)));
}

std::vector<std::string> faults(const Outcome& outcome) {
  std::vector<std::string> found;
  if (!(outcome.nmse <= outcome.bound)) {  // NaN is wrong too
    found.push_back(fmt::format("nmse {:.3g} is above {:.3g}, the most that this codec should lose", outcome.nmse, outcome.bound));
  }
  if (!outcome.alike) found.emplace_back("ranks ended with different bits");
  if (outcome.touched > 0) found.push_back(fmt::format("{:g} elements of inputs or bytes behind outputs were changed", outcome.touched));
  return found;
}

double fingerprint(std::span<const std::byte> bytes) {
  uint64_t state = bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof state) {
    uint64_t word = 0;
    std::memcpy(&word, &bytes[at], std::min(sizeof word, bytes.size() - at));
    state = (state ^ word) * 0x9e3779b97f4a7c15;
    state ^= state >> 29;
  }
  return static_cast<double>(state >> 11);
}

}  // namespace sweep
