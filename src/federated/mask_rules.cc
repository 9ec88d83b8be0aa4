// SPDX-License-Identifier: Apache-2.0
// mask_rules.h.
#include "federated/mask_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/rng.h"
#include "federated/group_rules.h"
#include "federated/secret_shares.h"
#include "federated/words.h"

namespace isthmus::federated {
namespace {

constexpr uint64_t kGraphStream = 0x6d61736b;  // of the generator that orders ranks
constexpr uint64_t kWeightNumber = ~uint64_t{0};
constexpr double kMostNoise = 1e6;

/// What a key is for, so that no two are the same.
Secret named(const Masking& masking, std::span<const std::byte> secret, std::string_view purpose, const MaskRound& round, uint32_t one,
             uint32_t other) {
  std::vector<std::byte> info(purpose.size() + 24);
  Writer(info).bytes(as_bytes(purpose)).u64(round.round).u64(round.epoch).u32(one).u32(other);
  return masking.derive(secret, info);
}

}  // namespace

Status check(const MaskRules& rules, uint32_t ranks) {
  if (rules.min_cohort < 2) return invalid_argument("a masked sum of fewer than 2 ranks would be a rank's own vector");
  if (rules.min_cohort > ranks) {
    return invalid_argument(fmt::format("masked sums are made of at least {} ranks, but there are {}", rules.min_cohort, ranks));
  }
  if (rules.degree % 2 != 0 || rules.degree + 1 > kMaxShares) {
    return invalid_argument(
        fmt::format("{} neighbours: an even number up to {} is accepted, or 0 for all others", rules.degree, kMaxShares - 1));
  }
  if (rules.degree == 0 && ranks > kMaxShares) {
    return invalid_argument(
        fmt::format("{} ranks cannot all share masks with each other (at most {}): choose a number of neighbours", ranks, kMaxShares));
  }
  if (rules.threshold == 1) return invalid_argument("with a threshold of 1 every single rank could give away the others' masks");
  return {};
}

Status check(const GroupRules& rules, uint32_t ranks) {
  if (!(rules.largest_weight >= kWeightUnit && rules.largest_weight <= kMostWeight)) {
    return invalid_argument(fmt::format("a largest weight of {}: it is at least 1/65536, in which weights are counted, and at most {}",
                                        rules.largest_weight, kMostWeight));
  }
  if (!(rules.noise >= 0 && rules.noise <= kMostNoise) || (rules.noise > 0 && !rules.masked)) {
    return invalid_argument(fmt::format("noise {}: 0 to {} are accepted, and above 0 only with masks", rules.noise, kMostNoise));
  }
  if (!rules.masked) return {};
  if (!(rules.clip > 0 && std::isfinite(rules.clip))) {
    return invalid_argument(fmt::format("masked sums need a clip above 0, the same for everybody; it is {}", rules.clip));
  }
  return check(rules.masks, ranks);
}

std::string to_text(const std::optional<GroupRules>& rules) {
  if (!rules) return "plain sums";
  std::string text = fmt::format("sums of weights up to {}", rules->largest_weight);
  if (!rules->masked) return text;
  const MaskRules& masks = rules->masks;
  text += fmt::format(", masked, of at least {} ranks, clip {}, neighbours {}, threshold {}", masks.min_cohort, rules->clip, masks.degree,
                      masks.threshold);
  return rules->noise > 0 ? text + fmt::format(", noise {}", rules->noise) : text;
}

float masked_scale(const GroupRules& rules, uint64_t count, uint64_t present, uint64_t elements) {
  const auto there = static_cast<double>(present);
  const double noise = rules.noise * rules.noise * static_cast<double>(count) * (1 + 4 * std::sqrt(2 / there));
  return static_cast<float>(double{rules.clip} * std::sqrt(there / static_cast<double>(elements) * (1 + noise)));
}

Result<MaskGraph> MaskGraph::make(const MaskRules& rules, const RankSet& cohort, uint64_t seed) {
  std::vector<uint32_t> circle;
  for (const int32_t rank : ranks_of(cohort)) circle.push_back(static_cast<uint32_t>(rank));
  const auto count = static_cast<uint32_t>(circle.size());
  if (count < std::max(2U, rules.min_cohort)) {
    return invalid_usage(
        fmt::format("a cohort of {} is too small for a masked sum: {} are the least", count, std::max(2U, rules.min_cohort)));
  }
  const bool full = rules.degree == 0 || rules.degree + 1 >= count;
  const uint32_t holders = full ? count : rules.degree + 1;
  MaskGraph graph;
  graph.cohort_ = cohort;
  graph.threshold_ = rules.threshold == 0 ? holders / 2 + 1 : rules.threshold;
  // A majority: else some could be told that a rank is there, the others that it is gone, and both its secrets would be known.
  if (graph.threshold_ > holders || 2 * graph.threshold_ <= holders || holders > kMaxShares) {
    return invalid_usage(
        fmt::format("a threshold of {} is not for a cohort of {}, where {} hold each rank's shares", graph.threshold_, count, holders));
  }
  CounterRng rng(seed, kGraphStream);
  for (size_t i = circle.size(); i > 1; --i) std::swap(circle[i - 1], circle[rng.below(i)]);
  graph.holders_.resize(kMaxContributors);
  for (uint32_t at = 0; at < count; ++at) {
    std::vector<uint32_t>& mine = graph.holders_[circle[at]];
    if (full) {
      mine = circle;
    } else {
      for (uint32_t step = 0; step <= rules.degree; ++step) mine.push_back(circle[(at + count + step - rules.degree / 2) % count]);
    }
    std::sort(mine.begin(), mine.end());
  }
  return graph;
}

std::optional<uint8_t> MaskGraph::share_number(uint32_t owner, uint32_t holder) const {
  const std::vector<uint32_t>& all = holders_[owner];
  const auto found = std::lower_bound(all.begin(), all.end(), holder);
  if (found == all.end() || *found != holder) return std::nullopt;
  return static_cast<uint8_t>(found - all.begin() + 1);
}

void write(std::span<std::byte> to, const Advertisement& advertisement) {
  Writer(to).fill(advertisement.seal_key).fill(advertisement.mask_key).fill(advertisement.commitment);
}

Result<Advertisement> read_advertisement(std::span<const std::byte> body) {
  Reader reader(body);
  Advertisement advertisement;
  reader.fill(advertisement.seal_key);
  reader.fill(advertisement.mask_key);
  reader.fill(advertisement.commitment);
  if (!reader.finished()) return remote_error("malformed public keys");
  return advertisement;
}

Key commitment_to(const Masking& masking, const Secret& self_seed) {
  return masking.hmac(self_seed.bytes(), as_bytes("isthmus commitment"));
}

Secret sealing_key(const Masking& masking, const Secret& common, const MaskRound& round, uint32_t from, uint32_t to) {
  return named(masking, common.bytes(), "isthmus shares", round, from, to);
}

Secret pair_key(const Masking& masking, const Secret& common, const MaskRound& round, uint32_t one, uint32_t other) {
  return named(masking, common.bytes(), "isthmus pair mask", round, std::min(one, other), std::max(one, other));
}

Secret own_key(const Masking& masking, const Secret& self_seed, const MaskRound& round) {
  return named(masking, self_seed.bytes(), "isthmus own mask", round, 0, 0);
}

Status add_mask(const Masking& masking, const Secret& key, uint32_t chunk, uint32_t bits, bool negative, std::span<uint32_t> sums) {
  const size_t each = bits <= 16 ? 2 : 4;  // bytes of the stream for a word
  std::vector<std::byte> stream(sums.size() * each);
  ISTHMUS_TRY(masking.key_stream(key, chunk, stream));
  const uint32_t sign = negative ? ~0U : 1U;  // -1 modulo 2^32
  if (each == 2) {
    for (size_t i = 0; i < sums.size(); ++i) {
      uint16_t word = 0;
      std::memcpy(&word, stream.data() + 2 * i, 2);
      sums[i] += word * sign;
    }
  } else {
    for (size_t i = 0; i < sums.size(); ++i) {
      uint32_t word = 0;
      std::memcpy(&word, stream.data() + 4 * i, 4);
      sums[i] += word * sign;
    }
  }
  wipe(stream);
  return {};
}

Result<uint64_t> weight_mask(const Masking& masking, const Secret& key) {
  std::array<std::byte, 8> stream{};
  ISTHMUS_TRY(masking.key_stream(key, kWeightNumber, stream));
  const uint64_t word = Reader(stream).u64();
  wipe(stream);
  return word;
}

}  // namespace isthmus::federated
