// SPDX-License-Identifier: Apache-2.0
// A member of a masked round, and its keeper, against a peer that says anything: both refuse it or go on, never both secrets of a
// rank are revealed, and nothing is read or written beyond what is there.
#include "federated/mask_keeper.h"
#include "federated/mask_member.h"
#include "target.h"

namespace isthmus::fuzz {

using namespace federated;

namespace {

constexpr uint32_t kRanks = 4;
constexpr MaskRound kRound{.round = 1, .epoch = 2};

Status fixed_bytes(std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{3});
  return {};
}

const Masking& masking() { return *Masking::load().value(); }

MaskMember member_of(uint32_t rank) {
  return MaskMember::make(masking(), fixed_bytes, {.min_cohort = 2}, {.rank = rank, .round = kRound, .seed = 5}).value();
}

MaskKeeper keeper_of() {
  MaskKeeper keeper(masking(), {.min_cohort = 2}, 5);
  keeper.begin(kRound);
  std::vector<std::byte> keys(Advertisement::kBytes);
  write(keys, member_of(0).advertisement());
  for (uint32_t rank = 0; rank < kRanks; ++rank) promise(keeper.advertise(rank, keys).ok(), "its own keys are taken");
  promise(keeper.gather(RankSet(15)).ok(), "four are a cohort");
  return keeper;
}

/// The next so many bytes, as the first byte of the rest says.
Input take_part(Input& input) {
  const size_t eights = take_byte(input), ones = take_byte(input) % 8;
  const size_t length = std::min<size_t>(eights * 8 + ones, input.size());
  const Input part = input.first(length);
  input = input.subspan(length);
  return part;
}

void member(Input input) {
  MaskMember one = member_of(0);
  bool revealed = false;
  while (!input.empty()) {
    const uint8_t which = take_byte(input);
    const auto message = decode_cohort_message(take_part(input), kRanks);
    if (!message.ok()) continue;
    if (which % 3 == 0) (void)one.share(*message).ok();
    if (which % 3 == 1) (void)one.take_inbox(*message).ok();
    if (which % 3 == 2 && one.reveal(*message).ok()) {
      promise(!revealed, "a member reveals once");
      promise(message->ranks[0] && message->ranks.count() >= 2, "and only of a cohort that it is in");
      revealed = true;
    }
  }
}

void keeper(Input input) {
  MaskKeeper one = keeper_of();
  const uint8_t survivors = take_byte(input);
  for (uint32_t rank = 0; rank < kRanks; ++rank) (void)one.take_shares(rank, take_part(input)).ok();
  const RankSet sharers = one.shared();
  one.close_sharing(sharers);
  for (const int32_t rank : ranks_of(sharers)) promise(!one.inbox_for(static_cast<uint32_t>(rank)).empty(), "there is an inbox");
  if (!one.commit(sharers & RankSet(survivors)).ok()) return;
  for (uint32_t rank = 0; rank < kRanks; ++rank) (void)one.take_reveal(rank, take_part(input)).ok();
  if (one.complete()) (void)one.uncover().ok();
}

}  // namespace

void run(Input input) { take_byte(input) % 2 == 0 ? member(input) : keeper(input); }

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add_part = [](Bytes& to, Input part) {
    to.push_back(static_cast<std::byte>(part.size() / 8));
    to.push_back(static_cast<std::byte>(part.size() % 8));
    to.insert(to.end(), part.begin(), part.end());
  };
  MaskKeeper real = keeper_of();
  std::vector<MaskMember> members;
  Bytes kept = {std::byte{1}, std::byte{7}}, said = {std::byte{0}};
  for (uint32_t rank = 0; rank < kRanks; ++rank) members.push_back(member_of(rank));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Bytes keys = real.keys_for(rank);
    if (rank == 0) said.push_back(std::byte{0});
    if (rank == 0) add_part(said, keys);
    const Bytes shares = members[rank].share(decode_cohort_message(keys, kRanks).value()).value();
    promise(real.take_shares(rank, shares).ok(), "shares are taken");
    add_part(kept, shares);
  }
  real.close_sharing(RankSet(15));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const Bytes inbox = real.inbox_for(rank);
    if (rank == 0) said.push_back(std::byte{1});
    if (rank == 0) add_part(said, inbox);
    promise(members[rank].take_inbox(decode_cohort_message(inbox, kRanks).value()).ok(), "an inbox is taken");
  }
  promise(real.commit(RankSet(7)).ok(), "three are enough");
  const Bytes commit = real.commit_message();
  said.push_back(std::byte{2});
  add_part(said, commit);
  for (uint32_t rank = 0; rank < 3; ++rank) add_part(kept, members[rank].reveal(decode_cohort_message(commit, kRanks).value()).value());
  all.push_back(said);
  all.push_back(kept);
  return all;
}

}  // namespace isthmus::fuzz
