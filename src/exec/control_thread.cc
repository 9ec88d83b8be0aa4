// SPDX-License-Identifier: Apache-2.0
// The control thread's loop. See control_thread.h. Tasks are polled without the list's lock, so a task may add others.
#include "exec/control_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "exec/driver.h"

namespace isthmus::exec {

namespace {
constexpr TimeNs kLongestSleepNs = kSecondNs;
}

ControlThread::ControlThread() : wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_fd_.valid()) usable_ = errno_error("eventfd", errno);
}

ControlThread::~ControlThread() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void ControlThread::add(std::shared_ptr<Task> task) {
  {
    const std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) {
      sigset_t all, before;  // the program's signal handlers run on the program's threads
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      thread_ = std::thread([this] { run(); });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      pthread_setname_np(thread_.native_handle(), "isthmus-control");
    }
  }
  wake();
}

void ControlThread::remove(const std::shared_ptr<Task>& task) {
  wake();
  std::unique_lock lock(mutex_);
  std::erase(tasks_, task);
  turn_over_.wait(lock, [this] { return !in_turn_; });
}

void ControlThread::settle(TimeNs limit_ns) {
  // One turn to say it, one for the hub to hear it and pass it on, and the one that may be under way.
  constexpr uint64_t kTurns = 3;
  const TimeNs until = Driver::now() + limit_ns;
  std::unique_lock lock(mutex_);
  const uint64_t enough = turns_ + kTurns;
  while (!tasks_.empty() && turns_ < enough && Driver::now() < until) {
    wake();
    turn_over_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

void ControlThread::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_.get(), &one, sizeof(one));
}

void ControlThread::sleep(TimeNs until_ns, const std::vector<transport::Wait>& waits) const {
  std::vector<pollfd> fds{{.fd = wake_fd_.get(), .events = POLLIN, .revents = 0}};
  for (const transport::Wait& wait : waits) {
    fds.push_back({.fd = wait.fd, .events = static_cast<short>(wait.write ? POLLIN | POLLOUT : POLLIN), .revents = 0});
  }
  const TimeNs left = std::clamp<TimeNs>(until_ns - Driver::now(), 0, kLongestSleepNs);
  const timespec timeout{.tv_sec = left / kSecondNs, .tv_nsec = left % kSecondNs};
  ppoll(fds.data(), fds.size(), &timeout, nullptr);
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_fd_.get(), &wakes, sizeof(wakes));
}

void ControlThread::run() {
  std::vector<transport::Wait> waits;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::vector<std::shared_ptr<Task>> turn = tasks_;
    in_turn_ = true;
    lock.unlock();
    waits.clear();
    TimeNs due = kNever;
    std::vector<std::shared_ptr<Task>> over;
    for (const auto& task : turn) {
      if (!task->poll(Driver::now())) {
        over.push_back(task);
        continue;
      }
      task->waits(waits);
      due = std::min(due, task->due());
    }
    turn.clear();
    lock.lock();
    for (const auto& task : over) std::erase(tasks_, task);
    in_turn_ = false;
    ++turns_;
    turn_over_.notify_all();
    lock.unlock();
    over.clear();
    sleep(due, waits);
    lock.lock();
  }
}

}  // namespace isthmus::exec
