// SPDX-License-Identifier: Apache-2.0
// mask_member.h.
#include "federated/mask_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace isthmus::federated {
namespace {

Status not_for_now(const char* what) { return remote_error(fmt::format("it sends {} that is not for now", what)); }

}  // namespace

Result<MaskMember> MaskMember::make(const Masking& masking, const bootstrap::RandomSource& random, const MaskRules& rules,
                                    const Place& place) {
  MaskMember member(masking, rules, place);
  ISTHMUS_TRY(member.draw(random));
  return member;
}

Status MaskMember::draw(const bootstrap::RandomSource& random) {
  random_ = random;
  for (Secret* secret : {&seal_secret_, &mask_secret_, &self_seed_}) ISTHMUS_TRY(random(secret->bytes()));
  ISTHMUS_ASSIGN(advertisement_.seal_key, masking_->public_of(seal_secret_));
  ISTHMUS_ASSIGN(advertisement_.mask_key, masking_->public_of(mask_secret_));
  advertisement_.commitment = commitment_to(*masking_, self_seed_);
  return {};
}

Result<std::vector<Share>> MaskMember::split(const Secret& secret, const MaskGraph& graph) const {
  std::vector<Secret> noise(graph.threshold() - 1);
  for (Secret& each : noise) ISTHMUS_TRY(random_(each.bytes()));
  return split_secret(secret, noise, static_cast<uint32_t>(graph.holders(place_.rank).size()));
}

Result<std::vector<std::byte>> MaskMember::share(const CohortMessage& keys) {
  if (graph_ || keys.round != place_.round.round || !keys.ranks[place_.rank]) return not_for_now("keys");
  ISTHMUS_ASSIGN(graph_, MaskGraph::make(rules_, keys.ranks, place_.seed + place_.round.round));
  const std::vector<uint32_t>& holders = graph_->holders(place_.rank);
  if (keys.payload.size() != (holders.size() - 1) * Advertisement::kBytes) return not_for_now("another number of keys");
  ISTHMUS_ASSIGN(const std::vector<Share> of_mask, split(mask_secret_, *graph_));
  ISTHMUS_ASSIGN(const std::vector<Share> of_seed, split(self_seed_, *graph_));
  std::vector<std::byte> sealed((holders.size() - 1) * kSealedBytes);
  size_t at = 0;
  for (size_t i = 0; i < holders.size(); ++i) {
    const uint32_t holder = holders[i];
    if (holder == place_.rank) {
      held_[holder] = {.of_mask_secret = of_mask[i], .of_self_seed = of_seed[i]};
      continue;
    }
    ISTHMUS_ASSIGN(const Advertisement theirs, read_advertisement(keys.payload.subspan(at * Advertisement::kBytes, Advertisement::kBytes)));
    neighbours_[holder] = theirs;
    const auto common = masking_->agree(seal_secret_, theirs.seal_key);
    if (!common.ok()) return common.status().with_context(fmt::format("rank {}", holder));
    std::array<std::byte, kSharePairBytes> pair{};
    Writer(pair).fill(of_mask[i].value.bytes()).fill(of_seed[i].value.bytes());
    ISTHMUS_TRY(masking_->seal(sealing_key(*masking_, *common, place_.round, place_.rank, holder), pair,
                               std::span(sealed).subspan(at * kSealedBytes, kSealedBytes)));
    wipe(pair);
    ++at;
  }
  return encode(MemberMessage{.round = place_.round.round, .payload = sealed});
}

Status MaskMember::take_inbox(const CohortMessage& inbox) {
  if (!graph_ || can_mask() || inbox.round != place_.round.round) return not_for_now("an inbox");
  if (!inbox.ranks[place_.rank] || (inbox.ranks & ~graph_->cohort()).any()) return not_for_now("an inbox of another cohort");
  sharers_ = inbox.ranks;
  if (sharers_.count() < rules_.min_cohort) return remote_error(fmt::format("it wants a sum of {}, too few", sharers_.count()));
  std::vector<Mask> masks;
  masks.push_back({.key = own_key(*masking_, self_seed_, place_.round), .negative = false});
  size_t at = 0;
  for (const uint32_t holder : graph_->holders(place_.rank)) {
    if (holder == place_.rank || !sharers_[holder]) continue;
    if (inbox.payload.size() < (at + 1) * kSealedBytes) return not_for_now("a shorter inbox");
    const Advertisement& theirs = neighbours_[holder];
    ISTHMUS_ASSIGN(const Secret common, masking_->agree(seal_secret_, theirs.seal_key));
    std::array<std::byte, kSharePairBytes> pair{};
    const Status opened = masking_->open(sealing_key(*masking_, common, place_.round, holder, place_.rank),
                                         inbox.payload.subspan(at * kSealedBytes, kSealedBytes), pair);
    if (!opened.ok()) return opened.with_context(fmt::format("the shares of rank {}", holder));
    Held& held = held_[holder];
    held.of_mask_secret.number = held.of_self_seed.number = *graph_->share_number(holder, place_.rank);
    Reader reader(pair);
    reader.fill(held.of_mask_secret.value.bytes());
    reader.fill(held.of_self_seed.value.bytes());
    wipe(pair);
    const auto pairwise = masking_->agree(mask_secret_, theirs.mask_key);
    if (!pairwise.ok()) return pairwise.status().with_context(fmt::format("rank {}", holder));
    masks.push_back({.key = pair_key(*masking_, *pairwise, place_.round, place_.rank, holder), .negative = holder < place_.rank});
    ++at;
  }
  if (inbox.payload.size() != at * kSealedBytes) return not_for_now("a longer inbox");
  if (at + 1 < graph_->threshold()) {
    return remote_error(fmt::format("{} ranks hold shares of rank {}'s secrets, and {} must", at + 1, place_.rank, graph_->threshold()));
  }
  masks_ = std::move(masks);
  return {};
}

Status MaskMember::mask(uint32_t chunk, uint32_t bits, std::span<uint32_t> words) const {
  for (const Mask& mask : masks_) ISTHMUS_TRY(add_mask(*masking_, mask.key, chunk, bits, mask.negative, words));
  return {};
}

Result<uint64_t> MaskMember::mask_weight(uint64_t weight) const {
  for (const Mask& mask : masks_) {
    ISTHMUS_ASSIGN(const uint64_t word, weight_mask(*masking_, mask.key));
    weight += mask.negative ? 0 - word : word;
  }
  return weight;
}

Result<std::vector<std::byte>> MaskMember::reveal(const CohortMessage& commit) {
  if (!can_mask() || revealed_ || commit.round != place_.round.round || !commit.payload.empty()) return not_for_now("a commitment");
  if (!commit.ranks[place_.rank] || (commit.ranks & ~sharers_).any()) return not_for_now("a commitment to another cohort");
  if (commit.ranks.count() < rules_.min_cohort) {
    return remote_error(fmt::format("it wants to uncover the sum of {}, and {} are the least", commit.ranks.count(), rules_.min_cohort));
  }
  revealed_ = true;  // a second answer could give away both secrets of somebody
  std::vector<std::byte> shares;
  for (const auto& [owner, held] : held_) {
    if (!sharers_[owner]) continue;
    const Key& share = (commit.ranks[owner] ? held.of_self_seed : held.of_mask_secret).value.bytes();
    shares.insert(shares.end(), share.begin(), share.end());
  }
  return encode(MemberMessage{.round = place_.round.round, .payload = shares});
}

}  // namespace isthmus::federated
