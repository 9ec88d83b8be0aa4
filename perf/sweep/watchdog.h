// SPDX-License-Identifier: Apache-2.0
// -T: when a measurement, or the warm-up before it, takes longer than its limit, somebody must still be awake. A thread that sleeps until
// then and calls `expire` unless it was told in time that all is well. Armed and disarmed by the first worker of a process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sweep {

class Watchdog {
 public:
  /// 0 seconds: no limit, no thread.
  Watchdog(int limit_s, std::function<void()> expire);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// (Re)starts the limit.
  void arm();
  void disarm();

 private:
  using Clock = std::chrono::steady_clock;
  void set_deadline(Clock::time_point deadline);
  void watch();

  const std::chrono::seconds limit_;
  const std::function<void()> expire_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sweep
