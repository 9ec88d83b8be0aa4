// SPDX-License-Identifier: Apache-2.0
// The limit on a measurement's duration (see watchdog.h).
#include "watchdog.h"

namespace sweep {

Watchdog::Watchdog(int limit_s, std::function<void()> expire) : limit_(limit_s), expire_(std::move(expire)) {
  if (limit_s > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::arm() {
  if (limit_.count() > 0) set_deadline(Clock::now() + limit_);
}

void Watchdog::disarm() {
  if (limit_.count() > 0) set_deadline(Clock::time_point::max());
}

void Watchdog::set_deadline(Clock::time_point deadline) {
  {
    const std::lock_guard lock(mutex_);
    deadline_ = deadline;
  }
  changed_.notify_one();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (deadline_ == Clock::time_point::max()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline_) == std::cv_status::timeout && !stop_ && Clock::now() >= deadline_) {
      lock.unlock();
      expire_();
      return;
    }
  }
}

}  // namespace sweep
