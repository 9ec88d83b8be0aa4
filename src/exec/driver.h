// SPDX-License-Identifier: Apache-2.0
// The one file with threads, clocks and waiting. A Driver owns a Process and its lock: API calls enter through Lock, blocking ones
// wait here, and whoever waits makes progress for the whole process. A progress thread is started when work must go on while
// nobody waits. Called by api/ and comm/; nothing here fails except starting a thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "exec/process.h"

namespace isthmus::exec {

class Driver {
 public:
  explicit Driver(std::unique_ptr<Process> process);
  ~Driver();
  /// Fails where the system refused the descriptor that sleepers are woken by; then nothing else may be called.
  [[nodiscard]] Status usable() const { return usable_; }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The Process, for the holder of the lock.
  class Lock {
   public:
    explicit Lock(Driver& driver) : driver_(driver), lock_(driver.mutex_, std::try_to_lock) {
      if (!lock_.owns_lock()) [[unlikely]]
        contend();
    }
    Process* operator->() const { return driver_.process_.get(); }
    Process& operator*() const { return *driver_.process_; }

   private:
    friend class Driver;
    void contend();
    Driver& driver_;
    std::unique_lock<std::mutex> lock_;
  };

  /// One poll on behalf of all: wakes whoever waits for what it found.
  void poll_once(Lock& lock);
  /// Before a wait that is likely to be very short: looks for what the latest call waits for, unless somebody else makes progress.
  void hurry();
  /// Makes progress until `done()` (asked under the lock) or the deadline; true if done. The lock is released while blocking.
  bool wait(Lock& lock, const std::function<bool()>& done, TimeNs deadline_ns = kNever);
  /// Instead of wait(), where a call has ended on the spot: such calls do not hold up everything else.
  void done_at_once(Lock& lock) {
    if (++done_at_once_ % kDoneAtOncePerLook == 0) look_around(lock);
  }
  /// Something changed that a blocked waiter or the progress thread should look at. Any thread, no lock needed.
  void wake();
  /// Sees to it that work goes on although nobody waits (asynchronous calls, bytes still to be sent).
  void run_in_background();

  static TimeNs now();

 private:
  static constexpr uint32_t kDoneAtOncePerLook = 4;  ///< reading a clock is a tenth of such a call

  void look_around(Lock& lock);
  void let_others_in(Lock& lock);
  void make_progress(Lock& lock, const std::function<bool()>& done, TimeNs deadline_ns);
  void block(Lock& lock, TimeNs until_ns, std::vector<pollfd>& fds);
  void background();
  void place_thread();

  std::unique_ptr<Process> process_;
  std::mutex mutex_;
  std::condition_variable changed_;  ///< the owner left, or somebody's call ended
  std::atomic<int> contenders_{0};   ///< threads that want the lock: the owner lets them in between polls
  bool owned_ = false;               ///< some thread is making progress
  bool background_owner_ = false;    ///< it is the progress thread, which yields to any inline waiter
  uint32_t done_at_once_ = 0;        ///< waits that found nothing to wait for
  int waiters_ = 0;                  ///< threads waiting for the owner
  uint64_t turn_ = 0;                ///< counts changes of the owner
  std::atomic<int> blocked_{0};      ///< threads that sleep in the kernel
  Fd wake_fd_;
  Status usable_;
  std::vector<transport::Wait> waits_;
  std::vector<pollfd> inline_fds_, background_fds_;
  std::thread thread_;
  bool stop_ = false;
};

}  // namespace isthmus::exec
