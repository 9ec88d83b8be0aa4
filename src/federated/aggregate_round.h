// SPDX-License-Identifier: Apache-2.0
// The rounds of an aggregator, one after the other: who offered, whose indices are here, what the sums are, and when it goes on without
// somebody. A pure state machine that knows ranks but no links; Aggregator feeds it and sends what it comes to. It only ever adds integers:
// scales are joined as the bits that they are, indices are looked up and added, nothing is decoded. That a round fails is its outcome.
//
// A contribution counts for the whole vector or not at all. Indices are held until the round is over, and a chunk is summed as soon as
// all on the roster have delivered it, so that upload, adding and download overlap. Whoever is lost or too late before its last chunk
// leaves the roster: a new edition, in which all chunks are summed anew without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "federated/aggregate_grid.h"
#include "federated/aggregate_messages.h"
#include "kernels/reduce.h"

namespace isthmus::federated {

struct RoundRules {
  uint32_t ranks = 1;
  uint32_t quorum = 1;                  ///< fewer than so many make no sum
  TimeNs deadline_ns = kSecondNs;       ///< so long after the first rank came, and after the first was through, the others may go missing
  TimeNs limit_ns = 60 * kSecondNs;     ///< so long after either phase began a round without a quorum fails
  uint32_t chunk_elements = 256 << 10;  ///< a multiple of kChunkAlignElements
  uint64_t max_elements = 0;
};

/// What ranks are told of a round, as far as it has come. Shared with those to whom it is still being sent.
struct Outcome {
  uint64_t round = 0;
  Signature signature;
  AggregateGrid grid;
  bootstrap::SharedBytes scales;             ///< a Scales message; null while ranks may still take part
  uint32_t edition = 0;                      ///< of the roster
  RankSet roster;                            ///< whose contributions the sums are made of
  std::vector<bootstrap::SharedBytes> sums;  ///< a Sums message for each of the first chunks, in this edition
  bool finished = false;
  RankSet late;    ///< ranks that took part too late to count
  Status failure;  ///< not ok: there is no sum
};

class Round {
 public:
  /// Words about a rank that is missing: "never connected".
  using Describe = std::function<std::string(uint32_t rank)>;

  /// The first round. `thc` and `target` outlive it.
  Round(uint64_t number, const codec::Thc& thc, const kernels::Target& target, const RoundRules& rules, Describe describe);

  [[nodiscard]] uint64_t number() const { return outcome_->round; }
  /// Ranks may still take part.
  [[nodiscard]] bool gathering() const { return outcome_->scales == nullptr && !over(); }
  [[nodiscard]] bool over() const { return outcome_->finished || !outcome_->failure.ok(); }
  [[nodiscard]] bool has_offer(uint32_t rank) const { return offers_[rank]; }
  /// Its indices count, and are not all here.
  [[nodiscard]] bool is_due_from(uint32_t rank) const { return !gathering() && !over() && outcome_->roster[rank] && !complete_[rank]; }

  /// A round begins at once when all expected ranks are here and are a quorum, without waiting for the others.
  void expect(uint32_t rank, bool expected) { expected_.set(rank, expected); }
  /// While gathering(): `rank`, without an offer so far, takes part with these scales, 4 bytes a group. remote_error: no such vector may
  /// be offered. Ranks that disagree about the signature fail the round instead.
  Status offer(uint32_t rank, const Signature& signature, std::span<const std::byte> scales, TimeNs now);
  /// The next chunk of a rank that it is due from. remote_error: it is another chunk, or has another size.
  Status add(uint32_t rank, uint32_t chunk, std::span<const std::byte> indices, TimeNs now);
  /// What `rank` has not delivered will not come.
  void lose(uint32_t rank);
  /// `rank` came when nobody could take part any more.
  void come_late(uint32_t rank) { outcome_->late.set(rank); }
  void fail(Status why);

  /// Goes on, by some chunks at most. True if anything changed; then it may go on at once.
  bool poll(TimeNs now);
  /// When time alone changes something.
  [[nodiscard]] TimeNs due() const;
  /// Once over(): the next round.
  void next();

  [[nodiscard]] const std::shared_ptr<Outcome>& outcome() const { return outcome_; }
  /// When the first offer came; kNever before.
  [[nodiscard]] TimeNs began_at() const { return began_at_; }

 private:
  using Chunks = std::vector<std::vector<std::byte>>;

  void join_scales();
  bool gather(TimeNs now);
  bool wait_for_indices(TimeNs now);
  bool add_up();
  [[nodiscard]] bootstrap::SharedBytes sum_of(uint32_t chunk) const;
  void drop(const RankSet& ranks, Code code);
  [[nodiscard]] std::string shortage(std::string_view what, const RankSet& here) const;
  [[nodiscard]] bool enough(const RankSet& ranks) const { return ranks.count() >= rules_.quorum; }
  /// On the roster, with all indices here.
  [[nodiscard]] RankSet through() const { return outcome_->roster & complete_; }

  const codec::Thc& thc_;
  const kernels::Target& target_;
  RoundRules rules_;
  Describe describe_;
  std::shared_ptr<Outcome> outcome_;
  RankSet expected_, offers_, complete_;
  std::vector<std::vector<std::byte>> own_scales_;  ///< by rank
  std::vector<Chunks> held_;                        ///< by rank; the memory is used again in the next round
  std::vector<uint32_t> received_;                  ///< by rank: chunks that are here
  TimeNs began_at_ = kNever, adding_since_ = kNever, first_through_at_ = kNever;
};

}  // namespace isthmus::federated
