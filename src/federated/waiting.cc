// SPDX-License-Identifier: Apache-2.0
// waiting.h.
#include "federated/waiting.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace isthmus::federated {

TimeNs clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait_until(const std::vector<transport::Wait>& waits, TimeNs due) {
  std::vector<pollfd> polled;
  polled.reserve(waits.size());
  for (const transport::Wait& wait : waits) {
    polled.push_back({.fd = wait.fd, .events = static_cast<short>(wait.write ? POLLIN | POLLOUT : POLLIN), .revents = 0});
  }
  const TimeNs left = due == kNever ? 0 : std::max<TimeNs>(0, due - clock_now());
  const timespec timeout{.tv_sec = left / kSecondNs, .tv_nsec = left % kSecondNs};
  ppoll(polled.data(), polled.size(), due == kNever ? nullptr : &timeout, nullptr);
}

Status complete(Contributor& contributor) {
  std::vector<transport::Wait> waits;
  while (true) {
    ISTHMUS_ASSIGN(const bool over, contributor.poll(clock_now()));
    if (over) return {};
    waits.clear();
    contributor.waits(waits);
    wait_until(waits, contributor.due());
  }
}

}  // namespace isthmus::federated
