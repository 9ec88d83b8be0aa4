// SPDX-License-Identifier: Apache-2.0
// Random draws beyond uniform numbers, from the counter-based generator: the same on every run. Used by clustering and by the simulation
// of cohorts; never for noise that protects anybody. Nothing here fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace isthmus::federated {

/// Independent sequences of one seed.
enum class Stream : uint64_t { seeding = 0x6b00, sample, split, data, selection, training, weights };

inline CounterRng draws(uint64_t seed, Stream stream, uint64_t which = 0) { return {seed, static_cast<uint64_t>(stream) << 48 | which}; }

/// One standard normal number (Box and Muller; the second one is not kept).
inline double normal(CounterRng& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// `count` of the numbers 0 .. size - 1, each at most once, in random order (the first steps of Fisher and Yates).
inline std::vector<uint32_t> choose(CounterRng& random, uint32_t size, uint32_t count) {
  std::vector<uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0U);
  count = std::min(count, size);
  for (uint32_t i = 0; i < count; ++i) std::swap(all[i], all[i + random.below(size - i)]);
  all.resize(count);
  return all;
}

}  // namespace isthmus::federated
