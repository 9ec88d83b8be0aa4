// SPDX-License-Identifier: Apache-2.0
// What an aggregator and its contributors say to each other, as bytes. Used by the two machines of aggregator.h and contributor.h. Pure.
// Decoding fails (remote_error) on bytes that neither writes; sizes are checked against what the reader itself expects, never believed.
//
//   contributor                                     aggregator
//   join: who it is (by handshake), its codec   ->
//                                               <-  welcome: codec, seed, round, limits; or refusal
//   offer: round, count, own scales             ->
//                                               <-  scales: the largest of every group; roster: who counts
//   indices: chunk after chunk                  ->
//                                               <-  sums: chunk after chunk, each as soon as the roster's indices are here
//                                               <-  end; or failed
//
// A new edition of the roster (somebody was lost or too late) takes all sums sent before back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "bootstrap/link.h"
#include "federated/group_rules.h"
#include "federated/rank_set.h"

namespace isthmus::federated {

inline constexpr uint16_t kAggregateVersion = 3;
/// Texts are cut here.
inline constexpr size_t kMaxAggregateTextBytes = 1024;

/// Link message types; the rendezvous and the control plane have those below 32.
enum class AggregateType : uint8_t {
  join = 32,
  offer = 33,
  indices = 34,
  leave = 35,
  shares = 36,  // of masked rounds, as keys, inbox, commit and reveal are: mask_messages.h
  reveal = 37,
  welcome = 40,
  refusal = 41,
  scales = 42,
  roster = 43,
  sums = 44,
  end = 45,
  failed = 46,
  heartbeat = 47,
  keys = 48,
  inbox = 49,
  commit = 50,
};

struct Join {
  uint16_t version = kAggregateVersion;
  uint64_t codec_hash = 0;  ///< 0: the aggregator's codec, whatever it is
  std::string codec;        ///< its text, for messages
};

struct Welcome {
  uint64_t seed = 0;   ///< of all random numbers
  uint64_t round = 0;  ///< the first in which this rank may take part
  uint64_t max_elements = 0;
  uint64_t codec_hash = 0;
  uint32_t chunk_elements = 0;
  uint32_t quorum = 0;
  TimeNs deadline_ns = 0, limit_ns = 0;
  uint64_t epoch = 0;               ///< of the cohort
  std::optional<GroupRules> group;  ///< none: plain sums
  std::string codec;
};

/// What all ranks of a round must agree on.
struct Signature {
  uint64_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  friend bool operator==(const Signature&, const Signature&) = default;
};
/// "sum of 1000 float".
std::string to_string(const Signature& signature);

struct Offer {
  uint64_t round = 0;
  uint64_t epoch = 0;  ///< of the cohort that it takes its rank to be in
  Signature signature;
  std::span<const std::byte> scales;  ///< 4 bytes a group, in the link's memory; for a masked round its public keys instead
};

/// Heads of chunks of indices and of sums; the payload follows.
struct IndicesHead {
  static constexpr size_t kBytes = 20;
  uint64_t round = 0;
  uint32_t chunk = 0;
  uint64_t weight = 0;  ///< of the contribution; masked if that is
};
struct SumsHead {
  static constexpr size_t kBytes = 16;
  uint64_t round = 0;
  uint32_t edition = 0;
  uint32_t chunk = 0;
};

struct Scales {
  uint64_t round = 0;
  std::span<const std::byte> scales;
};

struct Roster {
  uint64_t round = 0;
  uint32_t edition = 0;
  uint32_t word_bits = 0;  ///< of masked levels: by these they are packed
  RankSet ranks;
};

struct End {
  uint64_t round = 0;
  uint32_t edition = 0;
  RankSet late;             ///< ranks that took part too late to count
  uint64_t weight_sum = 0;  ///< of those who count
};

struct Failed {
  uint64_t round = 0;
  uint64_t next_round = 0;  ///< in which this rank may take part
  bool ended = false;       ///< there will be no further round
  Status why;               ///< not ok
};

bootstrap::SharedBytes encode(const Join& join);
bootstrap::SharedBytes encode(const Welcome& welcome);
bootstrap::SharedBytes encode_refusal(const Status& why);
/// Room for a message of that many groups; write_scale fills it.
std::vector<std::byte> encode(const Offer& offer, uint64_t groups);
std::vector<std::byte> encode(const Scales& scales, uint64_t groups);
/// Offsets of the scales in those.
inline constexpr size_t kOfferHeadBytes = 26, kScalesHeadBytes = 8;
/// Heads with so much room behind them.
std::vector<std::byte> encode(const IndicesHead& head, size_t payload_bytes);
std::vector<std::byte> encode(const SumsHead& head, size_t payload_bytes);
bootstrap::SharedBytes encode(const Roster& roster);
bootstrap::SharedBytes encode(const End& end);
bootstrap::SharedBytes encode(const Failed& failed);

Result<Join> decode_join(std::span<const std::byte> body);
Result<Welcome> decode_welcome(std::span<const std::byte> body);
/// The failure that the aggregator announces, or that its message is malformed.
Status decode_refusal(std::span<const std::byte> body);
Result<Offer> decode_offer(std::span<const std::byte> body);
Result<Scales> decode_scales(std::span<const std::byte> body);
Result<Roster> decode_roster(std::span<const std::byte> body, uint32_t ranks);
Result<End> decode_end(std::span<const std::byte> body, uint32_t ranks);
Result<Failed> decode_failed(std::span<const std::byte> body);

/// A head and what follows it.
template <typename Head>
struct Carried {
  Head head;
  std::span<const std::byte> payload;
};
Result<Carried<IndicesHead>> decode_indices(std::span<const std::byte> body);
Result<Carried<SumsHead>> decode_sums(std::span<const std::byte> body);

/// The i-th scale's bits.
uint32_t scale_at(std::span<const std::byte> scales, uint64_t index);
void write_scale(std::span<std::byte> scales, uint64_t index, uint32_t bits);
/// A root of a mean square that a rank may send: finite and not negative, or the one not-a-number, which wins every maximum.
constexpr bool is_scale(uint32_t bits) { return bits < 0x7f800000U || bits == 0x7fc00000U; }

/// The longest messages to an aggregator from a rank that has not joined, and of texts from it.
inline constexpr size_t kMaxJoinBytes = 64 + kMaxAggregateTextBytes;

}  // namespace isthmus::federated
