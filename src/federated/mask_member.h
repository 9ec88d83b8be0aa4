// SPDX-License-Identifier: Apache-2.0
// One rank's side of a masked round: its secrets, their shares, its masks, and what it reveals of others in the end. A pure state machine,
// bytes in and bytes out; Contributor carries them. It fails where the other side asks for what would uncover somebody, or sends
// nonsense; it can only be dropped then. docs/secure-sums.md has the protocol and what it defends against.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/masking.h"
#include "base/status.h"
#include "bootstrap/unique_id.h"
#include "federated/mask_messages.h"
#include "federated/mask_rules.h"
#include "federated/secret_shares.h"

namespace isthmus::federated {

class MaskMember {
 public:
  struct Place {
    uint32_t rank = 0;
    MaskRound round;
    uint64_t seed = 0;  ///< of the graph: public
  };

  /// With new secrets. `masking` and `random` outlive it.
  static Result<MaskMember> make(const Masking& masking, const bootstrap::RandomSource& random, const MaskRules& rules, const Place& place);

  [[nodiscard]] const Advertisement& advertisement() const { return advertisement_; }
  /// keys -> shares, bodies of messages.
  Result<std::vector<std::byte>> share(const CohortMessage& keys);
  /// Takes the others' shares. From now on it can mask.
  Status take_inbox(const CohortMessage& inbox);
  [[nodiscard]] bool can_mask() const { return !masks_.empty(); }
  /// words += this rank's masks; only the lowest `bits` bits of the outcome are for others.
  Status mask(uint32_t chunk, uint32_t bits, std::span<uint32_t> words) const;
  [[nodiscard]] Result<uint64_t> mask_weight(uint64_t weight) const;
  /// commit -> reveal: of ranks that are in the sum a share of their own mask's seed, of others one of their masks' secret. Once only.
  Result<std::vector<std::byte>> reveal(const CohortMessage& commit);
  /// Ranks that have shared: the most that can be in the sum.
  [[nodiscard]] const RankSet& sharers() const { return sharers_; }

 private:
  struct Mask {
    Secret key;
    bool negative;
  };
  /// What it holds of another rank's secrets, or of its own.
  struct Held {
    Share of_mask_secret, of_self_seed;
  };

  MaskMember(const Masking& masking, const MaskRules& rules, const Place& place) : masking_(&masking), rules_(rules), place_(place) {}
  Status draw(const bootstrap::RandomSource& random);
  Result<std::vector<Share>> split(const Secret& secret, const MaskGraph& graph) const;

  const Masking* masking_;
  bootstrap::RandomSource random_;
  MaskRules rules_;
  Place place_;
  Secret seal_secret_, mask_secret_, self_seed_;
  Advertisement advertisement_;
  std::optional<MaskGraph> graph_;
  std::map<uint32_t, Advertisement> neighbours_;
  std::map<uint32_t, Held> held_;
  RankSet sharers_;
  std::vector<Mask> masks_;
  bool revealed_ = false;
};

}  // namespace isthmus::federated
