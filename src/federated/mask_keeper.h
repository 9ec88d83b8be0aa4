// SPDX-License-Identifier: Apache-2.0
// The aggregator's side of a masked round: hands on keys and sealed shares, and takes the masks off the sum of those who count. It sees no
// secret of anybody but what is revealed in the end. A pure state machine; Round decides who counts and when. Fails (remote_error) on what
// no MaskMember sends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/masking.h"
#include "federated/mask_messages.h"
#include "federated/mask_rules.h"
#include "federated/secret_shares.h"

namespace isthmus::federated {

class MaskKeeper {
 public:
  /// `masking` outlives it.
  MaskKeeper(const Masking& masking, const MaskRules& rules, uint64_t seed) : masking_(&masking), rules_(rules), seed_(seed) {}

  void begin(const MaskRound& round);
  /// With its offer: a rank's public keys.
  Status advertise(uint32_t rank, std::span<const std::byte> keys);
  /// Nobody else can take part. invalid_usage: too few have come.
  Status gather(const RankSet& cohort);
  Status take_shares(uint32_t rank, std::span<const std::byte> body);
  [[nodiscard]] const RankSet& shared() const { return shared_; }
  /// Nobody else can share: the cohort whose masks are in all words.
  void close_sharing(const RankSet& sharers);
  [[nodiscard]] const RankSet& sharers() const { return sharers_; }
  /// These count, and no others; they are asked for their shares. remote_error: even all of them hold too few.
  Status commit(const RankSet& survivors);
  Status take_reveal(uint32_t rank, std::span<const std::byte> body);
  [[nodiscard]] const RankSet& revealed() const { return revealed_; }
  /// Every secret that is needed can be put together.
  [[nodiscard]] bool complete() const;
  /// Of whom there are too few shares, in words.
  [[nodiscard]] std::string lacking() const;
  /// Once complete(): the masks' keys. remote_error: shares do not give what was advertised.
  Status uncover();
  /// Once uncovered: how many masks there are, which is work.
  [[nodiscard]] size_t masks() const { return masks_.size(); }
  /// sums, of the survivors' masked words, lose their masks: so many, from the `first`.
  Status unmask(uint32_t chunk, uint32_t bits, std::span<uint32_t> sums, size_t first, size_t count) const;
  [[nodiscard]] Result<uint64_t> unmask_weight(uint64_t sum) const;

  /// Bodies of messages for a rank of the cohort.
  [[nodiscard]] std::vector<std::byte> keys_for(uint32_t rank) const;
  [[nodiscard]] std::vector<std::byte> inbox_for(uint32_t rank) const;
  [[nodiscard]] std::vector<std::byte> commit_message() const;

  /// The longest messages of members, for a cohort of at most `ranks`.
  static size_t max_message_bytes(uint32_t ranks) { return MemberMessage::kHeadBytes + ranks * kSealedBytes; }

 private:
  struct Mask {
    Secret key;
    bool negative;
  };
  [[nodiscard]] Result<Secret> join(uint32_t owner) const;

  const Masking* masking_;
  MaskRules rules_;
  uint64_t seed_;
  MaskRound round_;
  std::map<uint32_t, Advertisement> advertisements_;
  std::optional<MaskGraph> graph_;
  RankSet shared_, sharers_, survivors_, revealed_;
  std::map<uint32_t, std::vector<std::byte>> sealed_;  ///< by sender, for each of its neighbours
  std::map<uint32_t, std::vector<Share>> shares_;      ///< by owner
  std::vector<Mask> masks_;                            ///< what the sum still holds
};

}  // namespace isthmus::federated
