// SPDX-License-Identifier: Apache-2.0
// One thread, one ppoll (see loop.h).
#include "linkemu/loop.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "base/text.h"

namespace linkemu {

using isthmus::kNever;
using isthmus::kSecondNs;
using isthmus::Status;

TimeNs read_clock() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

Status Loop::run(int commands, int signals) {
  std::vector<pollfd> ready;
  for (const Device& device : devices_) ready.push_back({.fd = device.fd(), .events = POLLIN, .revents = 0});
  ready.push_back({.fd = commands, .events = POLLIN, .revents = 0});
  ready.push_back({.fd = signals, .events = POLLIN, .revents = 0});
  act(read_clock());
  while (!ending_) {
    const TimeNs next = next_event();
    const TimeNs wait = std::max<TimeNs>(0, next - read_clock());
    const timespec timeout = {.tv_sec = wait / kSecondNs, .tv_nsec = wait % kSecondNs};
    if (ppoll(ready.data(), ready.size(), next == kNever ? nullptr : &timeout, nullptr) < 0 && errno != EINTR) {
      return isthmus::errno_error("ppoll", errno);
    }
    for (size_t site = 0; site < devices_.size(); ++site) {
      if (ready[site].revents != 0) ISTHMUS_TRY(take_frames(site));
    }
    if (ready[devices_.size()].revents != 0 && !take_commands(commands)) ready[devices_.size()].fd = -1;
    if (ready[devices_.size() + 1].revents != 0) ending_ = true;
    act(read_clock());
  }
  return {};
}

TimeNs Loop::next_event() const {
  const TimeNs frames = network_.shaper().next_event();
  return agenda_.empty() ? frames : std::min(frames, agenda_.begin()->first);
}

Status Loop::take_frames(size_t site) {
  for (int i = 0; i < kBatch; ++i) {
    ISTHMUS_ASSIGN(const size_t bytes, devices_[site].read(buffer_));
    if (bytes == 0) return {};
    if (bytes < Forwarding::kLeastBytes) continue;
    const TimeNs now = read_clock();
    const auto end = buffer_.begin() + static_cast<std::ptrdiff_t>(bytes);
    const auto to = forwarding_.route(site, std::span(buffer_).first(bytes));
    for (size_t other = 0; other < devices_.size(); ++other) {
      if (other == site || (to && *to != other)) continue;
      network_.shaper().offer(network_.link(site, other), Frame(buffer_.begin(), end), now);
    }
    if (network_.shaper().next_event() <= now) deliver(now);
  }
  return {};
}

void Loop::deliver(TimeNs now) {
  for (const Shaper::Delivery& delivery : network_.shaper().poll(now)) {
    if (!devices_[network_.destination(delivery.link)].write(delivery.frame)) ++refused_;
  }
}

bool Loop::take_commands(int commands) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(commands, buffer.data(), buffer.size());
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  typed_.append(buffer.data(), static_cast<size_t>(got));
  take_lines(read_clock());
  return true;
}

void Loop::take_lines(TimeNs now) {
  for (size_t end = typed_.find('\n'); end != std::string::npos; end = typed_.find('\n')) {
    const std::string line = typed_.substr(0, end);
    typed_.erase(0, end + 1);
    if (isthmus::trim(line).empty()) continue;
    if (const auto command = network_.parse(line); command.ok()) {
      schedule(*command, now);
    } else {
      fmt::print(stderr, "linkemu: {}\n", command.status().text());
    }
  }
  if (typed_.size() > kLongestLine) {
    fmt::print(stderr, "linkemu: a command has more than {} letters, and is left out\n", kLongestLine);
    typed_.clear();
  }
}

void Loop::act(TimeNs now) {
  while (!agenda_.empty() && agenda_.begin()->first <= now) {
    const auto what = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    if (const Change* change = std::get_if<Change>(&what)) {
      network_.apply(*change, now);
    } else {
      obey(std::get<Order>(what), now);
    }
  }
  deliver(now);
}

void Loop::obey(Order order, TimeNs now) {
  if (order == Order::quit) ending_ = true;
  if (order == Order::stats) {
    fmt::print("{}\n", report());
    std::fflush(stdout);
  }
  if (order == Order::start) {
    for (const Command& command : script_) schedule(command, now);
    script_.clear();  // a second start has nothing to begin
  }
}

std::string Loop::report() const { return fmt::format(R"({{"refused_frames":{},"network":{}}})", refused_, network_.report()); }

}  // namespace linkemu
