// SPDX-License-Identifier: Apache-2.0
// A small thread that serves set-up and control connections whatever the program does: a rank that computes and makes no calls is
// alive. It sleeps until a descriptor is ready or a task is due. Started with the first task; used by comm/ and api/.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "base/types.h"
#include "transport/interface.h"

namespace isthmus::exec {

/// A state machine with connections of its own. Called by one thread at a time.
class Task {
 public:
  virtual ~Task() = default;
  /// Goes on as far as it can; false: it is over and may be dropped.
  virtual bool poll(TimeNs now) = 0;
  /// Descriptors to wait on.
  virtual void waits(std::vector<transport::Wait>& waits) = 0;
  /// When to poll even if nothing arrives.
  [[nodiscard]] virtual TimeNs due() const = 0;
};

class ControlThread {
 public:
  ControlThread();
  ~ControlThread();
  /// Fails where the system refused the descriptor that the thread is woken by; then nothing else may be called.
  [[nodiscard]] Status usable() const { return usable_; }
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  void add(std::shared_ptr<Task> task);
  /// Returns once the task is not being polled and never will be again. Not from within a task.
  void remove(const std::shared_ptr<Task>& task);
  /// Polls all tasks soon. Any thread.
  void wake();
  /// Returns once what was queued on the tasks so far is on its way, also through a hub among them; at most after `limit_ns`. Not while
  /// holding anything that tasks need.
  void settle(TimeNs limit_ns);

 private:
  void run();
  void sleep(TimeNs until_ns, const std::vector<transport::Wait>& waits) const;

  std::mutex mutex_;
  std::condition_variable turn_over_;
  std::vector<std::shared_ptr<Task>> tasks_;
  bool in_turn_ = false;  ///< tasks are being polled, without the mutex
  uint64_t turns_ = 0;
  bool stop_ = false;
  Fd wake_fd_;
  Status usable_;
  std::thread thread_;
};

}  // namespace isthmus::exec
