// SPDX-License-Identifier: Apache-2.0
// mask_keeper.h.
#include "federated/mask_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace isthmus::federated {
namespace {

Status misfit(const char* what) { return remote_error(fmt::format("it sends {} that do not fit", what)); }

/// The place of `other` among a rank's neighbours, who are its holders without itself.
size_t place_of(const std::vector<uint32_t>& holders, uint32_t rank, uint32_t other) {
  const auto at = static_cast<size_t>(std::lower_bound(holders.begin(), holders.end(), other) - holders.begin());
  return at - (rank < other ? 1 : 0);
}

}  // namespace

void MaskKeeper::begin(const MaskRound& round) {
  round_ = round;
  advertisements_.clear();
  graph_.reset();
  shared_ = sharers_ = survivors_ = revealed_ = {};
  sealed_.clear();
  shares_.clear();
  masks_.clear();
}

Status MaskKeeper::advertise(uint32_t rank, std::span<const std::byte> keys) {
  ISTHMUS_ASSIGN(advertisements_[rank], read_advertisement(keys));
  return {};
}

Status MaskKeeper::gather(const RankSet& cohort) {
  ISTHMUS_ASSIGN(graph_, MaskGraph::make(rules_, cohort, seed_ + round_.round));
  return {};
}

std::vector<std::byte> MaskKeeper::keys_for(uint32_t rank) const {
  std::vector<std::byte> keys;
  for (const uint32_t holder : graph_->holders(rank)) {
    if (holder == rank) continue;
    keys.resize(keys.size() + Advertisement::kBytes);
    write(std::span(keys).last(Advertisement::kBytes), advertisements_.at(holder));
  }
  return encode(CohortMessage{.round = round_.round, .ranks = graph_->cohort(), .payload = keys});
}

Status MaskKeeper::take_shares(uint32_t rank, std::span<const std::byte> body) {
  ISTHMUS_ASSIGN(const MemberMessage message, decode_member_message(body));
  const bool expected = graph_ && graph_->cohort()[rank] && !shared_[rank] && message.round == round_.round;
  if (!expected || message.payload.size() != (graph_->holders(rank).size() - 1) * kSealedBytes) return misfit("shares");
  sealed_[rank].assign(message.payload.begin(), message.payload.end());
  shared_.set(rank);
  return {};
}

void MaskKeeper::close_sharing(const RankSet& sharers) { sharers_ = sharers & shared_; }

std::vector<std::byte> MaskKeeper::inbox_for(uint32_t rank) const {
  std::vector<std::byte> inbox;
  for (const uint32_t holder : graph_->holders(rank)) {
    if (holder == rank || !sharers_[holder]) continue;
    const size_t at = place_of(graph_->holders(holder), holder, rank) * kSealedBytes;
    const std::vector<std::byte>& all = sealed_.at(holder);
    inbox.insert(inbox.end(), all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + kSealedBytes));
  }
  return encode(CohortMessage{.round = round_.round, .ranks = sharers_, .payload = inbox});
}

Status MaskKeeper::commit(const RankSet& survivors) {
  survivors_ = survivors;
  for (const int32_t each : ranks_of(sharers_)) {
    const std::vector<uint32_t>& holders = graph_->holders(static_cast<uint32_t>(each));
    const auto there = std::count_if(holders.begin(), holders.end(), [&](uint32_t holder) { return survivors[holder]; });
    if (there >= graph_->threshold()) continue;
    return remote_error(fmt::format("{} ranks are left that hold shares of rank {}'s secrets, and {} are needed to take its masks away",
                                    there, each, graph_->threshold()));
  }
  return {};
}

std::vector<std::byte> MaskKeeper::commit_message() const {
  return encode(CohortMessage{.round = round_.round, .ranks = survivors_, .payload = {}});
}

Status MaskKeeper::take_reveal(uint32_t rank, std::span<const std::byte> body) {
  ISTHMUS_ASSIGN(const MemberMessage message, decode_member_message(body));
  if (!survivors_[rank] || revealed_[rank] || message.round != round_.round) return misfit("shares");
  std::vector<uint32_t> owners;
  for (const uint32_t owner : graph_->holders(rank))
    if (sharers_[owner]) owners.push_back(owner);
  if (message.payload.size() != owners.size() * sizeof(Key)) return misfit("shares");
  Reader reader(message.payload);
  for (const uint32_t owner : owners) {
    Share share{.number = *graph_->share_number(owner, rank), .value = {}};
    reader.fill(share.value.bytes());
    std::vector<Share>& known = shares_[owner];
    if (known.size() < graph_->threshold()) known.push_back(share);
  }
  revealed_.set(rank);
  return {};
}

bool MaskKeeper::complete() const {
  const auto ranks = ranks_of(sharers_);
  return std::all_of(ranks.begin(), ranks.end(), [this](int32_t owner) {
    const auto found = shares_.find(static_cast<uint32_t>(owner));
    return found != shares_.end() && found->second.size() >= graph_->threshold();
  });
}

std::string MaskKeeper::lacking() const {
  for (const int32_t owner : ranks_of(sharers_)) {
    const auto found = shares_.find(static_cast<uint32_t>(owner));
    const size_t known = found == shares_.end() ? 0 : found->second.size();
    if (known < graph_->threshold()) {
      return fmt::format("{} of the {} shares that take rank {}'s masks away have come", known, graph_->threshold(), owner);
    }
  }
  return {};
}

Result<Secret> MaskKeeper::join(uint32_t owner) const {
  const Secret secret = join_shares(shares_.at(owner));
  const Advertisement& advertised = advertisements_.at(owner);
  bool fits = false;
  if (survivors_[owner]) {
    fits = commitment_to(*masking_, secret) == advertised.commitment;
  } else {
    ISTHMUS_ASSIGN(const Key shown, masking_->public_of(secret));
    fits = shown == advertised.mask_key;
  }
  if (!fits) return remote_error(fmt::format("the shares of rank {}'s secret do not give it: somebody sent a wrong one", owner));
  return secret;
}

Status MaskKeeper::uncover() {
  for (const int32_t each : ranks_of(sharers_)) {
    const auto owner = static_cast<uint32_t>(each);
    ISTHMUS_ASSIGN(const Secret secret, join(owner));
    if (survivors_[owner]) {
      masks_.push_back({.key = own_key(*masking_, secret, round_), .negative = true});
      continue;
    }
    // Its neighbours' words hold masks that its own would have taken away.
    for (const uint32_t holder : graph_->holders(owner)) {
      if (holder == owner || !survivors_[holder]) continue;
      ISTHMUS_ASSIGN(const Secret common, masking_->agree(secret, advertisements_.at(holder).mask_key));
      masks_.push_back({.key = pair_key(*masking_, common, round_, owner, holder), .negative = holder < owner});
    }
  }
  shares_.clear();
  return {};
}

Status MaskKeeper::unmask(uint32_t chunk, uint32_t bits, std::span<uint32_t> sums, size_t first, size_t count) const {
  for (const Mask& mask : std::span(masks_).subspan(first, count))
    ISTHMUS_TRY(add_mask(*masking_, mask.key, chunk, bits, mask.negative, sums));
  return {};
}

Result<uint64_t> MaskKeeper::unmask_weight(uint64_t sum) const {
  for (const Mask& mask : masks_) {
    ISTHMUS_ASSIGN(const uint64_t word, weight_mask(*masking_, mask.key));
    sum += mask.negative ? 0 - word : word;
  }
  return sum;
}

}  // namespace isthmus::federated
