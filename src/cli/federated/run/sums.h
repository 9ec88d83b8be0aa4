// SPDX-License-Identifier: Apache-2.0
// A member's part in its clusters' sums: a contributor for each cluster, all driven side by side. Blocks, with the run's deadline. That a
// sum fails is its outcome.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "cli/aggregate/premises.h"
#include "cli/federated/run/work.h"
#include "federated/contributor.h"
#include "federated/group_sum.h"

namespace isthmus::cli {

class MemberSums {
 public:
  /// What became of a sum.
  struct Made {
    Status status;
    bool counted = false;
    std::vector<float> mean;
  };

  MemberSums(const Premises& premises, const RunTerms& terms, uint32_t member, const Masking* masking)
      : premises_(premises), terms_(terms), member_(member), masking_(masking) {}

  /// One for each update whose sum is made. A signal ends the wait, and all that are not made have failed: signal().
  std::vector<Made> make(uint32_t round, std::span<const MemberWork::Update> updates, const Fd& signals);
  [[nodiscard]] int signal() const { return signal_; }
  /// Of messages, since the last call.
  std::pair<uint64_t, uint64_t> take_bytes() { return {std::exchange(sent_bytes_, 0), std::exchange(received_bytes_, 0)}; }
  void leave();

 private:
  enum class State : uint8_t { connecting, summing, over };
  /// The way to a cluster's aggregator; kept from round to round as long as none is missed.
  struct Channel {
    std::unique_ptr<federated::Contributor> contributor;
    std::unique_ptr<federated::GroupSum> group;
    uint32_t round = 0;  ///< in which it was last used
    State state = State::over;
  };
  using Place = std::pair<uint32_t, SumKind>;

  Result<Channel*> channel_of(const MemberWork::Update& update, uint32_t round);
  Status step(Channel& channel, const MemberWork::Update& update, Made& made, TimeNs now);

  const Premises& premises_;
  RunTerms terms_;
  uint32_t member_;
  const Masking* masking_;
  std::map<Place, Channel> channels_;
  uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  int signal_ = 0;
};

}  // namespace isthmus::cli
