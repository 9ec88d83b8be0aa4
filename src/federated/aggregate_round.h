// SPDX-License-Identifier: Apache-2.0
// The rounds of an aggregator, one after the other: who offered, whose indices are here, what the sums are, and when it goes on without
// somebody. A pure state machine that knows ranks but no links; Aggregator feeds it and sends what it comes to. It only ever adds integers:
// scales are joined as the bits that they are, indices are looked up and added, nothing is decoded. That a round fails is its outcome.
//
// A contribution counts for the whole vector or not at all. Indices are held until the round is over, and a chunk is summed as soon as
// all on the roster have delivered it, so that upload, adding and download overlap. Whoever is lost or too late before its last chunk
// leaves the roster: a new edition, in which all chunks are summed anew without it.
//
// Sums of a cohort (GroupRules) are made otherwise, so that memory does not grow with the ranks: contributions are taken from a few ranks
// at a time and added when they are whole, some chunks a poll; who is in the sum is settled (committed) before any of it goes out; and the
// whole round has one deadline, of which each phase has its share. Masked ones have two phases more (mask_messages.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "federated/aggregate_grid.h"
#include "federated/aggregate_messages.h"
#include "federated/mask_keeper.h"
#include "kernels/reduce.h"

namespace isthmus::federated {

struct RoundRules {
  uint32_t ranks = 1;
  uint32_t quorum = 1;                  ///< fewer than so many make no sum
  TimeNs deadline_ns = kSecondNs;       ///< so long after the first rank came, and after the first was through, the others may go missing
  TimeNs limit_ns = 60 * kSecondNs;     ///< so long after either phase began a round without a quorum fails
  uint32_t chunk_elements = 256 << 10;  ///< a multiple of kChunkAlignElements
  uint64_t max_elements = 0;
  std::optional<GroupRules> group = std::nullopt;  ///< then the deadline is the whole round's, and there is no other limit
  const Masking* masking = nullptr;                ///< for masked ones
  uint64_t mask_seed = 0;                          ///< of masks' graphs
  uint64_t epoch = 0;                              ///< of the cohort
  uint32_t at_once = 16;                           ///< ranks of a cohort whose vectors are taken at the same time
  uint64_t elements_at_once = 4 << 20;             ///< of a cohort: so many are added, or lose a mask, in a poll; at least one chunk's
};

/// What ranks are told of a round, as far as it has come. Shared with those to whom it is still being sent.
struct Outcome {
  uint64_t round = 0;
  uint64_t epoch = 0;  ///< of a cohort
  Signature signature;
  AggregateGrid grid;
  bootstrap::SharedBytes scales;             ///< a Scales message; null while ranks may still take part
  uint32_t edition = 0;                      ///< of the roster
  RankSet roster;                            ///< whose contributions the sums are made of
  std::vector<bootstrap::SharedBytes> sums;  ///< a Sums message for each of the first chunks, in this edition
  bool finished = false;
  bool sharing_closed = false;  ///< masked: inboxes are there
  bool committed = false;       ///< of a cohort: the roster does not change any more
  uint64_t weight_sum = 0;
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
  void expect(uint32_t rank, bool expected) {
    expected_.set(rank, expected && members_[rank]);
    if (expected) lost_.reset(rank);
  }
  /// While nobody has offered: only these take part from now on, all are expected, and fewer than `quorum` make no sum.
  void convene(const RankSet& members, uint32_t quorum);
  [[nodiscard]] bool is_member(uint32_t rank) const { return members_[rank]; }
  /// While gathering(): `rank`, without an offer so far, takes part with these scales, 4 bytes a group. remote_error: no such vector may
  /// be offered. Ranks that disagree about the signature fail the round instead.
  Status offer(uint32_t rank, const Signature& signature, std::span<const std::byte> scales, TimeNs now);
  /// The next chunk of a rank that it is due from. remote_error: it is another chunk, or has another size.
  Status add(uint32_t rank, uint32_t chunk, std::span<const std::byte> indices, TimeNs now, uint64_t weight = 0);
  /// Whether a message of `rank` should be read now: not while other ranks' vectors are being taken and its own is due.
  bool admits(uint32_t rank);
  [[nodiscard]] bool is_paused(uint32_t rank) const;
  /// A paused rank may be admitted.
  [[nodiscard]] bool has_room() const { return uploading_.count() < rules_.at_once; }
  /// Masked: a rank's sealed shares, and what it reveals. remote_error: not what it is asked for now; what comes too late is for nobody.
  Status share(uint32_t rank, std::span<const std::byte> body);
  Status reveal(uint32_t rank, std::span<const std::byte> body);
  /// Masked: bodies of messages for a rank of the cohort, each from when Outcome says so.
  [[nodiscard]] const MaskKeeper& masks() const { return *keeper_; }
  [[nodiscard]] bool in_cohort(uint32_t rank) const { return cohort_[rank]; }
  [[nodiscard]] bool masked() const { return rules_.group && rules_.group->masked; }
  /// Of this round while it is gathering, else of the next. Offers that are here were for another one, and are forgotten.
  void set_epoch(uint64_t epoch);
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
  enum class Phase : uint8_t { gathering, sharing, adding, revealing };

  void join_scales();
  void write_masked_scales(std::span<std::byte> joined) const;
  bool gather(TimeNs now);
  bool wait_for_indices(TimeNs now);
  bool add_up();
  [[nodiscard]] std::vector<std::byte> write_sum(uint32_t chunk) const;
  void drop(const RankSet& ranks, Code code);
  [[nodiscard]] Form form_of(DataType type) const;
  [[nodiscard]] TimeNs end_of(Phase phase) const;
  [[nodiscard]] bool is_short_of_somebody() const;
  Status begin_group();
  void join_early(std::span<const std::byte> scales);
  bool wait_for_shares(TimeNs now);
  bool wait_for_commit(TimeNs now);
  bool wait_for_reveals(TimeNs now);
  void commit();
  [[nodiscard]] Status check_vector(uint64_t weight) const;
  bool absorb();
  void add_chunk(uint32_t chunk, std::span<const std::byte> from);
  bool uncover();
  bool finish_group();
  [[nodiscard]] std::vector<std::byte> write_group_sum(uint32_t chunk) const;
  [[nodiscard]] std::string shortage(std::string_view what, const RankSet& here) const;
  [[nodiscard]] bool enough(const RankSet& ranks) const { return ranks.count() >= rules_.quorum; }
  /// On the roster, with all indices here.
  [[nodiscard]] RankSet through() const { return outcome_->roster & complete_; }

  const codec::Thc& thc_;
  const kernels::Target& target_;
  RoundRules rules_;
  Describe describe_;
  std::shared_ptr<Outcome> outcome_;
  RankSet members_;  ///< who may take part
  RankSet expected_, offers_, complete_;
  std::vector<std::vector<std::byte>> own_scales_;  ///< by rank
  std::vector<Chunks> held_;                        ///< by rank; the memory is used again in the next round
  std::vector<uint32_t> received_;                  ///< by rank: chunks that are here
  // Of a cohort:
  RankSet cohort_;     ///< who was on the first roster
  RankSet uploading_;  ///< whose vectors are being taken
  RankSet lost_;       ///< who has been there and is not any more
  RankSet gone_;       ///< who was lost since it offered, also if it has come again
  std::optional<MaskKeeper> keeper_;
  Phase phase_ = Phase::gathering;
  std::vector<std::vector<uint32_t>> word_sums_;    ///< by chunk, of words
  std::vector<std::vector<std::byte>> index_sums_;  ///< by chunk, of indices
  std::deque<uint32_t> whole_;                      ///< ranks whose vectors are here and not added yet; of the first,
  uint32_t absorbed_ = 0;                           ///< so many chunks are
  size_t unmasked_ = 0;                             ///< masks that the next chunk has lost
  std::vector<Chunks> spare_;                       ///< memory of vectors that were added
  std::vector<std::byte> joined_;                   ///< unmasked: scales of those who have come
  TimeNs began_at_ = kNever, adding_since_ = kNever, first_through_at_ = kNever;
};

}  // namespace isthmus::federated
