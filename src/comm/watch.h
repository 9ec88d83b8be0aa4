// SPDX-License-Identifier: Apache-2.0
// A communicator family's ear on the control plane: the communicator that was joined and all that were split from it share one link.
// Deaths of ranks and messages between ranks of one communicator come and go here. A task of the control thread; events
// are handed to the communicators through `deliver`, which runs them under the driver's lock (the simulator: at once).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "bootstrap/control.h"
#include "comm/messenger.h"
#include "exec/control_thread.h"

namespace isthmus::comm {

class Watch final : public exec::Task, public Messenger, private bootstrap::ControlSink {
 public:
  using Deliver = std::function<void(const std::function<void()>&)>;
  /// `rank` and `ranks` are those of the joined communicator. `wake` has the control thread poll soon.
  Watch(bootstrap::Link link, int32_t rank, int32_t ranks, int32_t hub_rank, const bootstrap::ControlOptions& options, TimeNs now,
        Deliver deliver, std::function<void()> wake);

  // --- Messenger: under the driver's lock -----------------------------------------------------------------------------------------
  void subscribe(Listener& listener, uint64_t communicator, int32_t rank, std::vector<int32_t> family_ranks) override;
  /// The last one to go says farewell.
  void unsubscribe(Listener& listener) override;
  void send(const Listener& from, int32_t to, std::span<const std::byte> body) override;

  // --- exec::Task ----------------------------------------------------------------------------------------------------------------
  bool poll(TimeNs now) override;
  void waits(std::vector<transport::Wait>& waits) override { member_.waits(waits); }
  [[nodiscard]] TimeNs due() const override { return member_.due(); }

 private:
  struct Subscriber {
    Listener* listener;
    uint64_t communicator;
    std::vector<int32_t> family_ranks;
  };
  /// A message about a communicator that has not formed here yet: another rank may be through with it already.
  struct Early {
    int32_t from;  ///< family rank
    uint64_t communicator;
    std::vector<std::byte> body;
  };
  struct Outgoing {
    int32_t to;
    std::vector<std::byte> body;
  };

  // bootstrap::ControlSink, called inside member_.poll()
  void on_dead(int32_t rank, const std::string& why) override;
  void on_abort(int32_t rank, const std::string& text) override { on_dead(rank, text); }
  void on_left(int32_t) override {}
  void on_message(int32_t from, std::span<const std::byte> body) override;
  void on_unwatched(const std::string&) override {}

  bool pass_on(const Early& message) const;
  template <typename Tell>
  void tell_all(int32_t family_rank, Tell&& tell);

  bootstrap::ControlMember member_;
  Deliver deliver_;
  std::function<void()> wake_;
  std::vector<Subscriber> subscribers_;                ///< under the driver's lock
  std::vector<std::pair<int32_t, std::string>> dead_;  ///< family ranks; under the driver's lock
  std::deque<Early> early_;                            ///< the latest; under the driver's lock
  std::mutex mutex_;
  std::vector<Outgoing> outgoing_;  ///< under mutex_, as the next
  bool leaving_ = false;
};

}  // namespace isthmus::comm
