// SPDX-License-Identifier: Apache-2.0
// Calls that begin together (one, or those of a group, perhaps of several local ranks), and host streams: queues of launches that
// run one after the other. Filled by comm/, driven by Process under its lock. A launch that fails reports the first failure.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/status.h"
#include "exec/engine.h"

namespace isthmus::exec {

/// Reusable: clear() keeps the memory, so that a warm launch allocates nothing.
class Launch {
 public:
  /// One call with the memory its spans point into.
  struct Item {
    Endpoint* endpoint = nullptr;  ///< null: withdrawn
    Call call;
    Ticket ticket;
    bool begun = false;
    std::vector<std::byte*> user_buffers;
    std::vector<uint64_t> user_bytes;
    std::vector<Signature> user_signatures;
  };

  /// A fresh item at the end (valid until the next add).
  Item& add();
  [[nodiscard]] bool empty() const { return used_ == 0; }
  /// Begins every call that has not begun, in order, but for those that their communicator holds back. A call that cannot begin fails its
  /// endpoint, so that nobody waits for it. True if anything has begun.
  bool submit(Engine& engine);
  /// Nobody waits for it.
  void put_on_stream() { on_stream_ = true; }
  /// All calls have begun.
  [[nodiscard]] bool submitted() const { return submitted_; }
  [[nodiscard]] bool done() const;
  /// The first failure among the calls; meaningful once done().
  [[nodiscard]] Status status() const;
  /// A call on that endpoint is not over.
  [[nodiscard]] bool awaits(const Endpoint& endpoint) const;
  /// The endpoint goes: calls on it that have not begun are over, with `why`.
  void withdraw(const Endpoint& endpoint, const Status& why);
  void clear();

 private:
  std::vector<std::unique_ptr<Item>> items_;  ///< tickets must not move
  size_t used_ = 0;
  bool submitted_ = false;
  bool on_stream_ = false;
};

/// An in-order queue of launches.
class Stream {
 public:
  void push(std::unique_ptr<Launch> launch) {
    launch->put_on_stream();
    queue_.push(std::move(launch));
  }
  /// Begins the next launch once the one before is done; hands finished ones to `spare`. True if anything changed.
  bool poll(Engine& engine, std::vector<std::unique_ptr<Launch>>& spare);
  [[nodiscard]] bool idle() const { return queue_.empty(); }
  /// True if a launch has not begun.
  [[nodiscard]] bool has_backlog() { return queue_.size() > 1 || (!queue_.empty() && !queue_.front()->submitted()); }
  /// As Launch's, over the queue.
  [[nodiscard]] bool awaits(const Endpoint& endpoint) const;
  void withdraw(const Endpoint& endpoint, const Status& why);
  /// The first failure of a launch on this stream since it was last asked.
  [[nodiscard]] Status take_status() { return std::exchange(status_, Status()); }

 private:
  Fifo<std::unique_ptr<Launch>> queue_;
  Status status_;
};

}  // namespace isthmus::exec
