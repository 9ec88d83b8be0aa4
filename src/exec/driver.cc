// SPDX-License-Identifier: Apache-2.0
// Waiting and the progress thread. See driver.h. How a waiter waits: it polls; after a poll that moved nothing it spins for
// some microseconds if there is a CPU for every rank of the host that it competes with, then gives the CPU away between polls; after a
// while it sleeps on the transports' descriptors.
#include "exec/driver.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/relax.h"

namespace isthmus::exec {

namespace {

// A sleeper costs its waker a system call and itself a scheduling delay of tens of microseconds, so it pays to look around first.
constexpr TimeNs kSpinNs = 100 * kMicrosecondNs;
// Whom we wait for may have been started on this very CPU, and nobody else moves it away before the system's next look at the load.
constexpr TimeNs kAloneNs = 5 * kMicrosecondNs;
constexpr TimeNs kYieldNs = 300 * kMicrosecondNs;
// Reading the clock costs as much as a poll that finds nothing.
constexpr uint32_t kSpinsPerLook = 8;
constexpr uint32_t kDoneAtOncePerPoll = 32;
// Time limits are checked at least this often even when nothing arrives.
constexpr TimeNs kLongestSleepNs = 50 * kMillisecondNs;

/// The same clock as Driver::now(), some milliseconds late and much cheaper.
TimeNs coarse_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

}  // namespace

TimeNs Driver::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Driver::Driver(std::unique_ptr<Process> process) : process_(std::move(process)), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_fd_.valid()) usable_ = errno_error("eventfd", errno);
  process_->engine().set_stopwatch(&Driver::now);
}

Driver::~Driver() {
  {
    Lock lock(*this);
    stop_ = true;
  }
  wake();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Driver::Lock::contend() {
  driver_.contenders_.fetch_add(1);
  lock_.lock();
  driver_.contenders_.fetch_sub(1);
}

void Driver::wake() {
  if (blocked_.load() == 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_.get(), &one, sizeof(one));  // full means a wake-up is on its way already
}

// Threads that submit, abort or ask get the lock between two polls. A woken thread needs a moment to run, and the lock is not fair:
// taking it back at once could keep them out for good.
void Driver::let_others_in(Lock& lock) {
  constexpr int kMostYields = 200;
  const int before = contenders_.load();
  lock.lock_.unlock();
  for (int i = 0; i < kMostYields; ++i) {
    sched_yield();
    if (before == 0 || contenders_.load() < before) break;
  }
  lock.lock_.lock();
}

void Driver::poll_once(Lock& lock) {
  if (!lock->poll(now())) return;
  if (waiters_ > 0) changed_.notify_all();
  wake();
}

void Driver::hurry() {
  if (!owned_ && process_->may_spin() && contenders_.load(std::memory_order_relaxed) == 0) process_->engine().hurry();
}

void Driver::look_around(Lock& lock) {
  const bool stale = coarse_now() - process_->engine().now() > kMillisecondNs;
  if (stale || done_at_once_ % kDoneAtOncePerPoll == 0) poll_once(lock);
}

bool Driver::wait(Lock& lock, const std::function<bool()>& done, TimeNs deadline_ns) {
  if (done()) {
    done_at_once(lock);
    return true;
  }
  while (!done()) {
    if (deadline_ns != kNever && now() >= deadline_ns) return false;
    if (owned_ && !background_owner_) {  // somebody else makes progress for all
      ++waiters_;
      wake();
      changed_.wait_for(lock.lock_, std::chrono::milliseconds(50));
      --waiters_;
      continue;
    }
    if (background_owner_) wake();
    owned_ = true;
    background_owner_ = false;
    ++turn_;
    make_progress(lock, done, deadline_ns);
    owned_ = false;
    changed_.notify_all();
  }
  return true;
}

// The owner's loop: polls until its own wait is over.
void Driver::make_progress(Lock& lock, const std::function<bool()>& done, TimeNs deadline_ns) {
  const bool may_spin = process_->may_spin();
  TimeNs quiet_since = 0;
  TimeNs time = now();
  for (uint32_t spins = 0; !done();) {
    if (time >= deadline_ns) return;
    const bool moved = process_->poll(time);
    if (moved) {
      quiet_since = 0;
      if (waiters_ > 0) changed_.notify_all();
    } else if (quiet_since == 0) {
      quiet_since = time;
    } else if (time - quiet_since > (may_spin ? kSpinNs : kYieldNs)) {
      block(lock, std::min(deadline_ns, time + kLongestSleepNs), inline_fds_);
      time = now();
    } else if (may_spin && time - quiet_since < kAloneNs) {
      relax();
    } else {
      let_others_in(lock);
      time = now();
    }
    if (contenders_.load(std::memory_order_relaxed) > 0) let_others_in(lock);
    if (moved || !may_spin || ++spins % kSpinsPerLook == 0) time = now();
  }
}

// Sleeps until a descriptor is ready, wake() or the time. The lock is free meanwhile.
void Driver::block(Lock& lock, TimeNs until_ns, std::vector<pollfd>& fds) {
  waits_.clear();
  const uint64_t turn = turn_;
  if (process_->arm(waits_) && !process_->busy()) {
    fds.clear();
    fds.push_back({.fd = wake_fd_.get(), .events = POLLIN, .revents = 0});
    for (const transport::Wait& wait : waits_) {
      fds.push_back({.fd = wait.fd, .events = static_cast<short>(wait.write ? POLLIN | POLLOUT : POLLIN), .revents = 0});
    }
    const TimeNs left = std::max<TimeNs>(0, until_ns - now());
    const timespec timeout{.tv_sec = left / kSecondNs, .tv_nsec = left % kSecondNs};
    blocked_.fetch_add(1);
    lock.lock_.unlock();
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
    lock.lock_.lock();
    blocked_.fetch_sub(1);
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_fd_.get(), &wakes, sizeof(wakes));
  }
  if (turn == turn_) process_->disarm();  // else the next owner has armed for itself
}

namespace {

// "0-3,8" as a CPU set; nothing if the text is no such list.
std::optional<cpu_set_t> parse_cpus(const std::string& text) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const char* at = text.c_str(); *at != 0;) {
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    unsigned long last = first;
    if (end == at) return {};
    if (*end == '-') {
      at = end + 1;
      last = std::strtoul(at, &end, 10);
      if (end == at) return {};
    }
    if (last < first || last >= CPU_SETSIZE || (*end != ',' && *end != 0)) return {};
    for (unsigned long cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, &cpus);
    at = *end == ',' ? end + 1 : end;
  }
  return cpus;
}

}  // namespace

// The thread goes where the setting says, else wherever the process may run.
void Driver::place_thread() {
  const std::string& text = process_->settings().progress_cpus;
  if (text.empty()) return;
  const std::optional<cpu_set_t> cpus = parse_cpus(text);
  if (!cpus || pthread_setaffinity_np(thread_.native_handle(), sizeof(*cpus), &*cpus) != 0) {
    process_->log().warn("ISTHMUS_PROGRESS_CPUS={} names no CPUs that this process may use: the progress thread runs anywhere", text);
  }
}

void Driver::run_in_background() {
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { background(); });
    place_thread();
  }
  changed_.notify_all();
  wake();
}

void Driver::background() {
  Lock lock(*this);
  TimeNs quiet_since = 0;
  while (!stop_) {
    if (owned_ && !background_owner_) {  // an inline waiter is faster: it outranks this thread
      changed_.wait_for(lock.lock_, std::chrono::milliseconds(20));
      continue;
    }
    if (!background_owner_) ++turn_;
    owned_ = background_owner_ = true;
    const TimeNs time = now();
    if (process_->poll(time)) {
      quiet_since = 0;
      if (waiters_ > 0) changed_.notify_all();
    } else if (quiet_since == 0) {
      quiet_since = time;
    }
    if (quiet_since != 0 && time - quiet_since > kSpinNs) {
      block(lock, time + kLongestSleepNs, background_fds_);
    } else {
      let_others_in(lock);
    }
    if (background_owner_) owned_ = background_owner_ = false;
  }
}

}  // namespace isthmus::exec
