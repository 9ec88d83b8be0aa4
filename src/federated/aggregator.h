// SPDX-License-Identifier: Apache-2.0
// The aggregator: a parameter server that only ever adds integers. Ranks connect and prove themselves (bootstrap/reception.h), contribute a
// vector a round, and get the sum of those who came. A state machine without threads or clocks: call poll(now) when a descriptor of waits()
// is ready or due() has come. Only opening it fails; whatever ranks do is counted, told to them, or part of a round's outcome.
//
// All ranks of a round get the same bytes, also those that came too late to be counted; of each of the latest rounds the result is kept
// for them. docs/aggregator.md is the guide, docs/decisions/0011-aggregator.md has the reasons.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/link.h"
#include "bootstrap/reception.h"
#include "bootstrap/surroundings.h"
#include "codec/thc.h"
#include "federated/aggregate_messages.h"
#include "federated/aggregate_round.h"

namespace isthmus::federated {

/// Both ends' claims are for this, and their key is derived from the common secret for this alone.
uint64_t aggregator_number();
Key aggregator_key(const Crypto& crypto, const Key& secret);

struct AggregatorOptions {
  std::shared_ptr<const codec::Thc> thc;  ///< for as many ranks as there may be
  uint32_t quorum = 0;                    ///< 0: all ranks
  TimeNs deadline_ns = kSecondNs;         ///< as RoundRules has them
  TimeNs limit_ns = 60 * kSecondNs;
  uint32_t chunk_elements = 256 << 10;
  uint64_t memory_bytes = uint64_t{1} << 30;       ///< for contributions and results; bounds the vectors that are accepted
  size_t queue_bytes = 1 << 20;                    ///< for each rank, beyond what the system holds, of what it is being sent
  uint32_t kept_rounds = 2;                        ///< results that are kept for late ranks
  uint64_t rounds = 0;                             ///< then it ends; 0: never
  std::optional<GroupRules> group = std::nullopt;  ///< weighted sums of a cohort: one deadline for a round, few vectors held at a time
  uint64_t epoch = 0;                              ///< of the cohort: offers for another are refused
  bool follows_epochs = false;                     ///< but an offer for a later one begins that
  uint32_t at_once = 16;                           ///< vectors of a cohort that are held while they come
  uint64_t elements_at_once = 4 << 20;             ///< as RoundRules has them
  const Masking* masking = nullptr;                ///< for masked sums
  const kernels::Target* target = &kernels::select_target();
  TimeNs peer_timeout_ns = 60 * kSecondNs;  ///< a rank that takes nothing of what it is sent for so long is lost
};

/// What became of a round.
struct RoundReport {
  uint64_t round = 0;
  Signature signature;
  RankSet contributors, late;
  Status failure;               ///< not ok: there is no sum
  uint64_t received_bytes = 0;  ///< of scales and indices, from all ranks
  uint64_t result_bytes = 0;    ///< of scales and sums, to each rank
  TimeNs duration_ns = 0;       ///< from the first rank's offer
  uint32_t editions = 0;        ///< how often its sums were taken back
  uint64_t epoch = 0;           ///< of a cohort
  double weight_sum = 0;
};

/// A rank that asked for a round which was over.
struct LateArrival {
  uint64_t round = 0;
  uint32_t rank = 0;
  bool served = false;  ///< its result was still there
};

class Aggregator final : private bootstrap::Reception::Host {
 public:
  struct Counters : bootstrap::Reception::Counters {
    uint64_t duplicates = 0;                      ///< proved the secret but claim a rank that another process holds
    uint64_t misfits = 0;                         ///< ... another number of ranks, codec or version
    uint64_t malformed = 0;                       ///< ... and sent what no contributor sends
    uint64_t lost = 0;                            ///< ranks whose connection broke, or that took nothing any more
    uint64_t left = 0;                            ///< ranks that said farewell
    uint64_t stale = 0;                           ///< offers for another epoch than the cohort's
    uint64_t late = 0;                            ///< contributions that came too late to be counted
    uint64_t received_bytes = 0, sent_bytes = 0;  ///< of messages
  };

  /// invalid_argument: options that do not fit each other; else what listening fails with.
  static Result<std::unique_ptr<Aggregator>> open(const bootstrap::Surroundings& surroundings, const Key& key, AggregatorOptions options,
                                                  std::span<const transport::Address> listen_at);

  /// False: it has ended, by stop() or after its last round, and all ranks have been told.
  bool poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }
  /// From now on offers are for another epoch; those that are here for a round that still gathers are refused, and it gathers anew.
  void set_epoch(uint64_t epoch, TimeNs now);
  /// Who makes the next sums of a cohort, of which epoch they are, and how many are enough (masked: at least the smallest cohort). The
  /// round under way fails; others' offers are refused.
  void convene(const RankSet& members, uint32_t quorum, uint64_t epoch, TimeNs now);
  /// The round under way, if there is one, fails on all its ranks; others may follow.
  void give_up(const std::string& why, TimeNs now);
  /// The sum of a round that is still kept, with the same bits as its ranks decode it to. invalid_usage: there is none of so many floats.
  Status decode(uint64_t round, std::span<float> sum) const;
  /// Ends it: the round under way fails on all its ranks, with `why` in the text.
  void stop(const std::string& why, TimeNs now);

  [[nodiscard]] std::vector<transport::Address> addresses() const { return reception_.addresses(); }
  [[nodiscard]] uint64_t max_elements() const { return rules_.max_elements; }
  [[nodiscard]] uint32_t connected() const;
  /// A round is over, all who are in its sum have been sent it, or are gone, and nothing that they still say for it is on its way: what
  /// is unread when a process ends takes back what it has sent.
  [[nodiscard]] bool told(uint64_t round) const;
  [[nodiscard]] Counters counters() const;
  /// What has happened since the last call.
  std::vector<RoundReport> take_reports() { return std::exchange(reports_, {}); }
  std::vector<LateArrival> take_late_arrivals() { return std::exchange(late_arrivals_, {}); }

 private:
  /// An offer for a round that has not begun.
  struct EarlyOffer {
    uint64_t epoch = 0;
    Signature signature;
    std::vector<std::byte> scales;
  };
  /// A rank's place.
  struct Seat {
    std::optional<bootstrap::Link> link;
    transport::ProcessId process{};
    bool joined = false;
    TimeNs came_at = 0, moved_at = 0, beat_at = 0;
    size_t unsent_bytes = 0;  ///< when it last moved
    std::optional<EarlyOffer> early;
    std::shared_ptr<Outcome> serving;  ///< what it is being told of
    bool scales_sent = false;
    uint32_t editions_sent = 0;
    size_t sums_sent = 0;
    bool keys_sent = false, inbox_sent = false, commit_sent = false;  ///< of a masked round
    uint64_t served_round = 0;                                        ///< whose outcome it has last been told
    uint64_t revealed_round = 0;                                      ///< masked: for which it has last revealed shares, also too late
    std::string absence = "never connected";
  };

  Aggregator(const bootstrap::Surroundings& surroundings, const Key& key, AggregatorOptions options, const RoundRules& rules);
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const override;
  void admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) override;
  [[nodiscard]] bool has_come(int32_t rank, const transport::ProcessId& process) const override;
  void turn_away(bootstrap::Link link, const std::string& why, uint64_t& counter, TimeNs now);

  void hear(uint32_t rank, TimeNs now);
  Status on_message(uint32_t rank, const bootstrap::Message& message, TimeNs now);
  Status on_join(uint32_t rank, std::span<const std::byte> body, TimeNs now);
  Status on_offer(uint32_t rank, std::span<const std::byte> body, TimeNs now);
  void refuse_stale(uint32_t rank, uint64_t round, uint64_t epoch, uint64_t right);
  void on_late_offer(uint32_t rank, const Offer& offer);
  Status on_indices(uint32_t rank, std::span<const std::byte> body, TimeNs now);
  void lose(uint32_t rank, const Status& why, uint64_t& counter);
  void vacate(Seat& seat, uint32_t rank, std::string absence);

  bool advance(TimeNs now);
  void conclude(TimeNs now);
  void forget(const Outcome& outcome);
  void begin_next(TimeNs now);
  void serve(Seat& seat, const std::shared_ptr<Outcome>& outcome);
  bool tell(Seat& seat, uint32_t rank);
  bool tell_masks(Seat& seat, uint32_t rank);
  void say(Seat& seat, AggregateType type, bootstrap::SharedBytes body);
  void say_failed(Seat& seat, uint64_t round, uint64_t next_round, const Status& why, bool ended = false);
  void say_ended(Seat& seat);
  Status send(Seat& seat, uint32_t rank, TimeNs now);
  Status check(Seat& seat, TimeNs now);
  void keep_company(uint32_t rank, TimeNs now);
  [[nodiscard]] bool has_ended(TimeNs now);
  [[nodiscard]] uint64_t next_round() const { return round_.number() + (round_.gathering() ? 0 : 1); }

  bootstrap::Surroundings surroundings_;
  Key key_;
  AggregatorOptions options_;
  RoundRules rules_;
  bootstrap::Reception reception_;
  bootstrap::Farewells farewells_;
  uint64_t seed_ = 0;
  std::vector<Seat> seats_;  ///< by rank
  Round round_;
  std::deque<std::shared_ptr<Outcome>> kept_;  ///< oldest first
  uint64_t round_bytes_ = 0;
  std::vector<RoundReport> reports_;
  std::vector<LateArrival> late_arrivals_;
  Counters counters_;
  Status ended_;  ///< not ok: why there will be no further round
  bool stopped_ = false;
  TimeNs linger_until_ = kNever, part_by_ = kNever;
  TimeNs due_at_ = 0;
};

}  // namespace isthmus::federated
