// SPDX-License-Identifier: Apache-2.0
// A rank of an aggregator (aggregator.h): reaches it, proves itself, and has one vector after the other summed. A state machine without
// threads or clocks, like its peer. What fails is the call under way: the aggregator cannot be reached, refuses this rank, is lost, or
// says that the round failed. The next call begins anew, and connects anew where that is needed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bootstrap/approach.h"
#include "bootstrap/link.h"
#include "bootstrap/surroundings.h"
#include "federated/aggregate_messages.h"
#include "federated/contribution.h"
#include "federated/mask_member.h"

namespace isthmus::federated {

struct ContributorOptions {
  std::vector<transport::Address> addresses;  ///< the aggregator's
  uint32_t rank = 0, ranks = 1;
  std::shared_ptr<const codec::Thc> thc;     ///< null: the aggregator's codec, whatever it is
  TimeNs reach_timeout_ns = 30 * kSecondNs;  ///< until the aggregator has let this rank in
  TimeNs call_timeout_ns = 0;                ///< for a sum, from begin(); 0: the aggregator's limits are enough
  TimeNs peer_timeout_ns = 60 * kSecondNs;   ///< an aggregator that says nothing for so long is lost
  const kernels::Target* target = &kernels::select_target();
  std::optional<GroupRules> group = std::nullopt;  ///< those of the cohort; the aggregator must have the same
  uint64_t epoch = 0;                              ///< of the cohort that this rank takes itself to be in
  const Masking* masking = nullptr;                ///< for masked sums
};

/// What a sum came to.
struct Contributed {
  uint64_t round = 0;
  RankSet contributors;                         ///< whose vectors it is made of
  RankSet late;                                 ///< who took part too late for that, as far as was known
  uint64_t sent_bytes = 0, received_bytes = 0;  ///< of messages
  uint32_t editions = 0;                        ///< how often the aggregator took sums back
  uint64_t weight_sum = 0;                      ///< of the contributors, in kWeightUnit
  uint32_t word_bits = 0;                       ///< of masked or integer sums
};

class Contributor {
 public:
  /// invalid_argument: options out of range.
  static Result<std::unique_ptr<Contributor>> make(const bootstrap::Surroundings& surroundings, const Key& key, ContributorOptions options);

  /// Sets out for the aggregator, unless it is there already.
  void connect(TimeNs now);
  /// Begins a sum; its memory belongs to this until poll() says that it is over. invalid_argument: what the codec or the aggregator cannot
  /// serve (nothing has happened then).
  Status begin(const Contribution& contribution, TimeNs now);
  /// True: nothing is under way; the sum that was begun is made: result(). A failure ends what was under way and is returned once.
  Result<bool> poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }
  /// Of the next sums.
  void set_epoch(uint64_t epoch) { options_.epoch = epoch; }
  [[nodiscard]] uint64_t epoch() const { return options_.epoch; }
  /// Says farewell and lets go of the connection.
  void leave();

  [[nodiscard]] uint32_t rank() const { return options_.rank; }
  [[nodiscard]] bool connected() const { return state_ >= State::ready; }
  /// The aggregator has answered a call with that it makes no further rounds.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] const Contributed& result() const { return result_; }
  /// A sum is under way, and its vector may be sent: masked, everybody's masks are settled.
  [[nodiscard]] bool uploads() const { return state_ == State::exchanging && may_upload(); }
  /// Once connected.
  [[nodiscard]] const Welcome& terms() const { return terms_; }
  /// invalid_argument: the aggregator has no memory for so many elements.
  [[nodiscard]] Status fits(uint64_t count) const;
  [[nodiscard]] const codec::Thc& thc() const { return *thc_; }

 private:
  enum class State : uint8_t {
    away,
    reaching,
    joining,     ///< proven, waits for the welcome
    ready,       ///< nothing is under way
    measuring,   ///< its own scales
    waiting,     ///< for the others'
    exchanging,  ///< indices and sums
  };

  Contributor(const bootstrap::Surroundings& surroundings, const Key& key, ContributorOptions options);
  Status step(TimeNs now);
  Status reach(TimeNs now);
  Status hear(TimeNs now);
  Status on_message(const bootstrap::Message& message);
  Status on_welcome(std::span<const std::byte> body);
  Status on_scales(std::span<const std::byte> body);
  Status on_roster(std::span<const std::byte> body);
  Status on_keys(std::span<const std::byte> body);
  Status on_inbox(std::span<const std::byte> body);
  Status on_commit(std::span<const std::byte> body);
  [[nodiscard]] bool masked() const { return options_.group && options_.group->masked; }
  [[nodiscard]] bool may_upload() const { return counts_ && (!masked() || (member_ && member_->can_mask())); }
  Result<bootstrap::SharedBytes> next_chunk();
  Status on_sums(std::span<const std::byte> body);
  Status on_end(std::span<const std::byte> body);
  Status on_failed(std::span<const std::byte> body);
  Status start_call();
  void measure(TimeNs now);
  Status upload(TimeNs now);
  Status check_times(TimeNs now);
  void say(AggregateType type, bootstrap::SharedBytes body);
  void let_go();
  void end_call(State state);

  bootstrap::Surroundings surroundings_;
  Key key_;
  ContributorOptions options_;
  State state_ = State::away;
  std::optional<bootstrap::Approach> approach_;
  std::optional<bootstrap::Link> link_;
  std::shared_ptr<const codec::Thc> thc_;
  Welcome terms_;
  uint64_t round_ = 0;  ///< of the call under way, or of the next
  bool ended_ = false;

  std::optional<Contribution> call_;
  Status verdict_;  ///< not ok: why the call has failed, although the connection has not
  std::optional<Coding> coding_;
  std::optional<MaskMember> member_;
  std::vector<uint32_t> words_;    ///< of a chunk
  std::vector<std::byte> offer_;   ///< a message
  std::vector<std::byte> scales_;  ///< common to all, 4 bytes a group
  bool has_roster_ = false, counts_ = false;
  Roster roster_;
  uint32_t measured_ = 0, sent_ = 0, decoded_ = 0;  ///< chunks
  Contributed result_;

  TimeNs heard_at_ = 0, reach_by_ = kNever, call_by_ = kNever, due_at_ = 0;
};

}  // namespace isthmus::federated
