// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of a communicator beside its calls: failures and accounts of calls. Two kinds: Watch, over the control
// plane, and LocalFamily, for ranks that all live in this process. Used under the driver's lock; a message to a rank that is gone is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isthmus::comm {

/// What a communicator is told. Ranks are its own.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_rank_dead(int32_t rank, const std::string& why) = 0;
  virtual void on_message(int32_t from, std::span<const std::byte> body) = 0;
};

class Messenger {
 public:
  virtual ~Messenger() = default;
  /// `family_ranks[r]` is rank r's rank in the communicator that was joined, of which all others were split. Deaths that are known
  /// already are told at once.
  virtual void subscribe(Listener& listener, uint64_t communicator, int32_t rank, std::vector<int32_t> family_ranks) = 0;
  virtual void unsubscribe(Listener& listener) = 0;
  /// Carries a message to a rank of the listener's communicator, in order per pair.
  virtual void send(const Listener& from, int32_t to, std::span<const std::byte> body) = 0;
};

/// Between ranks of one process: delivered at once.
class LocalFamily final : public Messenger {
 public:
  void subscribe(Listener& listener, uint64_t communicator, int32_t rank, std::vector<int32_t> family_ranks) override;
  void unsubscribe(Listener& listener) override;
  void send(const Listener& from, int32_t to, std::span<const std::byte> body) override;

 private:
  struct Subscriber {
    Listener* listener;
    uint64_t communicator;
    int32_t rank;
  };
  std::vector<Subscriber> subscribers_;
};

}  // namespace isthmus::comm
