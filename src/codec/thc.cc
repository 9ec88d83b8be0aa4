// SPDX-License-Identifier: Apache-2.0
// Makes a Thc from its configuration: checks, tables, layout. Called by whoever opens a compressed communicator, and by tests.
#include "codec/thc.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/hash.h"
#include "codec/normal.h"

namespace isthmus::codec {
namespace {

constexpr uint16_t kThcId = 4;

uint64_t units_of(uint64_t elements) { return (elements + kUnitElements - 1) / kUnitElements; }

uint64_t encoded_bytes(const Codec& self, uint64_t elements, uint32_t summands) {
  return units_of(elements) * (kUnitElements / 8) * self.thc->width(summands);
}

uint64_t scale_bytes(const Codec& self, uint64_t elements) { return self.thc->groups(elements) * sizeof(float); }

Status check(const ThcConfig& config, uint32_t ranks) {
  if (config.bits != 2 && config.bits != 3 && config.bits != 4 && config.bits != 8) {
    return invalid_argument(fmt::format("thc: b={}, but an index has 2, 3, 4 or 8 bits", config.bits));
  }
  if (!(config.overflow >= 1e-9 && config.overflow <= 0.125)) {
    return invalid_argument(fmt::format("thc: p={}, but the probability of clamping is from 1e-9 to 1/8", config.overflow));
  }
  if (!std::has_single_bit(config.group) || config.group < kMinGroup || config.group > kMaxGroup) {
    return invalid_argument(
        fmt::format("thc: group={}, but a group is a power of two from {} to {} elements", config.group, kMinGroup, kMaxGroup));
  }
  const uint32_t least = (1U << config.bits) - 1;
  if (config.granularity < least || config.granularity > 255) {
    return invalid_argument(fmt::format("thc: g={}, but with b={} it is from {} to 255 (or 0: chosen by the number of ranks)",
                                        config.granularity, config.bits, least));
  }
  const uint64_t largest = uint64_t{ranks} * config.granularity;
  if (ranks == 0 || largest >> kMaxSumBits != 0) {
    return invalid_argument(fmt::format("thc: {} ranks with g={} make sums up to {}, but a sum has at most {} bits: up to {} ranks", ranks,
                                        config.granularity, largest, kMaxSumBits, ((1U << kMaxSumBits) - 1) / config.granularity));
  }
  return {};
}

ThcConfig with_defaults(ThcConfig config, uint32_t ranks) {
  if (config.granularity == 0 && ranks > 0 && config.bits <= 8) {
    config.granularity = std::max(255 / ranks, (1U << config.bits) - 1);
  }
  if (config.overflow == 0) config.overflow = config.feedback ? 1.0 / 32 : 1.0 / 512;
  return config;
}

uint64_t hash_of(const Thc& thc) {
  const ThcConfig& config = thc.config;
  Hasher hasher;
  hasher.add(std::string_view("thc/2")).add(thc.ranks).add(config.bits).add(config.granularity);
  hasher.add(std::bit_cast<uint64_t>(config.overflow)).add(std::bit_cast<uint64_t>(thc.clamp)).add(config.group);
  hasher.add(config.layout).add(config.correlated).add(config.prescale).add(config.feedback);
  for (uint32_t i = 0; i < thc.levels(); ++i) hasher.add(thc.table[i]);
  return hasher.value();
}

ThcSearch search_of(const Thc& thc) {
  std::array<uint8_t, 256> below;
  for (uint32_t v = 0, i = 0; v < below.size(); ++v) {
    while (i + 1 < thc.levels() && thc.table[i + 1] <= v) ++i;
    below[v] = static_cast<uint8_t>(i);
  }
  ThcSearch search = {};
  search.direct = thc.config.granularity < 32;
  while (thc.config.granularity >> search.shift >= 16) ++search.shift;
  const uint32_t in_cell = search.direct ? 1 : 1U << search.shift;
  for (auto& step : search.last) step.fill(127);
  for (uint32_t cell = 0; cell < 16; ++cell) {
    search.low[cell] = below[cell * in_cell];
    search.high[cell] = static_cast<uint8_t>(below[16 + cell] - below[cell]);
    uint32_t step = 0;
    for (uint32_t v = cell * in_cell + 1; v < (cell + 1) * in_cell; ++v) {
      if (below[v] == below[v - 1]) continue;
      if (step < ThcSearch::kMostSteps) search.last[step][cell] = static_cast<uint8_t>(v - 1 - 128);
      ++step;
    }
    search.steps = std::max(search.steps, step);
  }
  return search;
}

void fill_tables(Thc& thc) {
  const ThcConfig& config = thc.config;
  thc.clamp = inverse_normal_tail(config.overflow / 2);
  thc.table = best_table(thc.levels(), config.granularity, thc.clamp, true);
  thc.uniform = config.granularity == thc.levels() - 1;
  thc.gap.fill(1);
  for (uint32_t i = 0; i + 1 < thc.levels(); ++i) thc.gap[i] = static_cast<uint8_t>(thc.table[i + 1] - thc.table[i]);
  thc.search = search_of(thc);
  for (uint32_t i = 0; i <= Thc::kPrescaleSteps; ++i) {
    thc.prescale[i] = config.prescale ? static_cast<float>(prescale_factor(thc.clamp, i * (1.0 / Thc::kPrescaleSteps))) : 1.0F;
  }
  thc.rounding_error = rounding_error(thc.table.data(), thc.levels(), config.granularity, thc.clamp);
  thc.clamp_error = clamp_error(thc.clamp);
}

}  // namespace

uint32_t Thc::width(uint32_t room) const {
  if (room <= 1) return config.bits;
  return static_cast<uint32_t>(std::bit_width(uint64_t{room} * config.granularity));
}

uint64_t Thc::groups(uint64_t elements) const {
  return elements / config.group + static_cast<uint64_t>(std::popcount(units_of(elements % config.group)));
}

Piece Thc::group(uint64_t elements, uint64_t index) const { return thc_group(config.group, config.layout, elements, index); }

double Thc::predicted_nmse(bool same) const {
  // The pre-scale spreads the same noise over a larger signal: to first order nothing of the formula changes.
  return (same ? rounding_error / ranks : rounding_error) + clamp_error;
}

Result<std::unique_ptr<const Thc>> make_thc(const ThcConfig& config, uint32_t ranks) {
  auto thc = std::make_unique<Thc>();
  thc->config = with_defaults(config, ranks);
  thc->ranks = ranks;
  ISTHMUS_TRY(check(thc->config, ranks));
  fill_tables(*thc);
  thc->hash = hash_of(*thc);
  thc->codec = {.name = "thc",
                .id = kThcId,
                .homomorphic = true,
                .needs_scale = true,
                .block_elements = thc->config.group,
                .max_summands = thc->max_summands(),
                .encoded_bytes = encoded_bytes,
                .scale_bytes = scale_bytes,
                .thc = thc.get()};
  return std::unique_ptr<const Thc>(std::move(thc));
}

}  // namespace isthmus::codec
