// SPDX-License-Identifier: Apache-2.0
// What a masked round says beside aggregate_messages.h, as bytes. Pure. Decoding fails (remote_error) on bytes that neither side writes.
//
//   contributor                                        aggregator
//   offer, with its public keys (mask_rules.h)     ->
//                                                  <-  keys: the cohort; its neighbours' public keys
//   shares: of its two secrets, sealed for each    ->
//                                                  <-  inbox: who has shared; the neighbours' shares for it
//   indices: masked words, chunk after chunk       ->
//                                                  <-  commit: whose words are all here
//   reveal: of each neighbour one share            ->
//                                                  <-  sums, end
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "federated/aggregate_messages.h"

namespace isthmus::federated {

/// A message about some ranks of a round, with a fixed number of bytes for each neighbour. Payloads lie where the message does.
struct CohortMessage {
  static constexpr size_t kHeadBytes = 8 + kMaxContributors / 8;
  uint64_t round = 0;
  RankSet ranks;
  std::span<const std::byte> payload;
};
/// A contributor's answer.
struct MemberMessage {
  static constexpr size_t kHeadBytes = 8;
  uint64_t round = 0;
  std::span<const std::byte> payload;
};

std::vector<std::byte> encode(const CohortMessage& message);
std::vector<std::byte> encode(const MemberMessage& message);
Result<CohortMessage> decode_cohort_message(std::span<const std::byte> body, uint32_t ranks);
Result<MemberMessage> decode_member_message(std::span<const std::byte> body);

}  // namespace isthmus::federated
