// SPDX-License-Identifier: Apache-2.0
// What both ends of a masked round derive from the same facts: who shares masks with whom, whose secrets who holds, how many shares give
// one, and the key streams' names. docs/secure-sums.md describes the protocol. Pure; making a graph fails where a cohort is too small.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/masking.h"
#include "base/status.h"
#include "federated/rank_set.h"

namespace isthmus::federated {

/// How a cohort's sums are masked; public, the same for everybody.
struct MaskRules {
  uint32_t min_cohort = 3;  ///< fewer contributions are never added up; at least 2
  uint32_t degree = 0;      ///< ranks that each shares masks with, even; 0: all others
  uint32_t threshold = 0;   ///< shares that give a secret; 0: the least majority of those who hold them
  friend bool operator==(const MaskRules&, const MaskRules&) = default;
};

/// invalid_argument: rules that no cohort of at most `ranks` can follow.
Status check(const MaskRules& rules, uint32_t ranks);

/// Ranks on a circle in an order that follows from the seed, each with its nearest ones: a random regular graph (Bell et al., "Secure
/// single-server aggregation with (poly)logarithmic overhead", CCS 2020).
class MaskGraph {
 public:
  /// Of the ranks of `cohort`. invalid_usage: too few, or a threshold that they cannot have.
  static Result<MaskGraph> make(const MaskRules& rules, const RankSet& cohort, uint64_t seed);

  [[nodiscard]] const RankSet& cohort() const { return cohort_; }
  [[nodiscard]] uint32_t threshold() const { return threshold_; }
  /// Those who hold shares of a rank's secrets: its neighbours and itself, ascending. For a rank of the cohort.
  [[nodiscard]] const std::vector<uint32_t>& holders(uint32_t rank) const { return holders_[rank]; }
  /// The number of the share of `owner` that `holder` has: 1 and up; none if it has none.
  [[nodiscard]] std::optional<uint8_t> share_number(uint32_t owner, uint32_t holder) const;

 private:
  RankSet cohort_;
  uint32_t threshold_ = 0;
  std::vector<std::vector<uint32_t>> holders_;  ///< by rank
};

/// What is public of one rank's secrets in one round, and is checked when they are put together again.
struct Advertisement {
  static constexpr size_t kBytes = 96;
  Key seal_key{};    ///< X25519: shares are sealed for whoever knows its secret
  Key mask_key{};    ///< X25519: masks between two ranks follow from it
  Key commitment{};  ///< to the seed of the own mask
};
void write(std::span<std::byte> to, const Advertisement& advertisement);
Result<Advertisement> read_advertisement(std::span<const std::byte> body);
Key commitment_to(const Masking& masking, const Secret& self_seed);

/// A round as names of keys: keys of one round or epoch are useless in another.
struct MaskRound {
  uint64_t round = 0, epoch = 0;
};

/// The key that `from`'s shares for `to` are sealed under; of masks between two ranks, the same for both; of a rank's own mask.
Secret sealing_key(const Masking& masking, const Secret& common, const MaskRound& round, uint32_t from, uint32_t to);
Secret pair_key(const Masking& masking, const Secret& common, const MaskRound& round, uint32_t one, uint32_t other);
Secret own_key(const Masking& masking, const Secret& self_seed, const MaskRound& round);

/// sums += the key's mask for a chunk, or -= it. `bits`: of the words.
Status add_mask(const Masking& masking, const Secret& key, uint32_t chunk, uint32_t bits, bool negative, std::span<uint32_t> sums);
/// The same for the 64-bit word that is a weight.
Result<uint64_t> weight_mask(const Masking& masking, const Secret& key);

/// Two secrets' shares, sealed.
inline constexpr size_t kSharePairBytes = 2 * sizeof(Key), kSealedBytes = kSharePairBytes + Masking::kTagBytes;

}  // namespace isthmus::federated
