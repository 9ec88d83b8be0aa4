// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator make their group sums: at rank 0 an aggregator, served by the control thread, at every rank a
// contributor. Its connections are its own, so that a rank that dies there does not end the others' sums as it ends the communicator's
// calls. Held by Library; used by group_sums.cc. Opening it is collective and fails where the ranks cannot meet; sums fail as isthmus.h
// says.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "exec/control_thread.h"
#include "federated/aggregator.h"
#include "federated/contributor.h"
#include "federated/group_sum.h"
#include "federated/privacy.h"

namespace isthmus::api {

/// What all ranks of a group must have in common, and what is this rank's own.
struct GroupTerms {
  federated::GroupOptions options;
  TimeNs deadline_ns = kNever;
  uint32_t quorum = 0;
  std::string codec;

  [[nodiscard]] bool same_as(const GroupTerms& other) const;
  /// Of what all must have in common.
  [[nodiscard]] uint64_t hash() const;
};

/// How ranks find rank 0's aggregator: broadcast through the communicator.
struct Invitation {
  static constexpr size_t kMaxAddresses = 3;
  uint64_t terms_hash = 0;
  uint32_t addresses = 0;  ///< 0: rank 0 could not open it
  std::array<transport::Address, kMaxAddresses> at{};
};

class Hall {
 public:
  Hall(exec::ControlThread& control, const comm::Membership& membership);
  ~Hall();
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;

  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  [[nodiscard]] const comm::Membership& membership() const { return membership_; }
  [[nodiscard]] bool is_open() const { return contributor_ != nullptr; }
  [[nodiscard]] bool open_for(const GroupTerms& terms) const { return is_open() && terms_.same_as(terms); }

  /// At rank 0: opens the aggregator, and says where it is.
  Status listen(const GroupTerms& terms, const bootstrap::Surroundings& surroundings, const Settings& settings, Invitation& invitation);
  /// At every rank: reaches it. A failure leaves this rank out until close().
  Status enter(const GroupTerms& terms, const bootstrap::Surroundings& surroundings, const Settings& settings,
               const Invitation& invitation);
  void close();

  /// For a call that was refused: takes part with `count` zeros and weight 0, so that the others do not wait for this rank, and that its
  /// next call is in the same sum as theirs.
  void sit_out(uint64_t count, uint64_t epoch);
  /// One sum; `x` becomes the mean.
  Status sum(std::span<float> x, double weight, uint64_t epoch);
  [[nodiscard]] uint64_t epoch() const { return contributor_->epoch(); }
  [[nodiscard]] const federated::Contributed& result() const { return contributor_->result(); }
  [[nodiscard]] const federated::GroupSum& member() const { return *member_; }
  /// Privacy spent in the latest sum, and in all, for kDelta.
  static constexpr double kDelta = 1e-5;
  [[nodiscard]] double epsilon() const { return epsilon_; }
  [[nodiscard]] double epsilon_total() const { return ledger_.epsilon(kDelta); }

 private:
  class AddingTask;

  /// What member_ has begun.
  Status add_up(std::span<float> x);

  exec::ControlThread& control_;
  comm::Membership membership_;
  std::mutex mutex_;
  GroupTerms terms_;
  std::shared_ptr<const codec::Thc> thc_;
  std::shared_ptr<AddingTask> adding_;  ///< at rank 0
  std::unique_ptr<federated::Contributor> contributor_;
  std::optional<federated::GroupSum> member_;
  federated::PrivacyLedger ledger_;
  double epsilon_ = 0;
};

}  // namespace isthmus::api
