// SPDX-License-Identifier: Apache-2.0
// Turns and epoll. Events only mark and queue; all work happens in the turns, so a turn may end anybody's life but its own.
#include "transport/tcp/readiness.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace isthmus::transport {

namespace {
constexpr size_t kEventsAtOnce = 64;
constexpr TimeNs kPatienceNs = 200 * kMicrosecondNs;
}  // namespace

Served::~Served() { leave(); }

void Served::leave() {
  if (readiness_ != nullptr) readiness_->forget(*this);
}

Readiness::~Readiness() {
  for (Served* served : watched_) served->readiness_ = nullptr;
  for (Served* served : blind_) served->readiness_ = nullptr;
}

Status Readiness::watch(Served& served, int fd, Hurry hurry) {
  if (fd >= 0) {
    if (!epoll_.valid()) epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return errno_error("make an epoll descriptor", errno);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &served;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error("watch a socket", errno);
  }
  served.readiness_ = this;
  served.fd_ = fd;
  served.readable_ = served.writable_ = true;
  (fd >= 0 ? watched_ : blind_).push_back(&served);
  served.patient_ = hurry == Hurry::later;
  if (fd >= 0 && !served.patient_) ++impatient_;
  next_look_ns_ = INT64_MIN;
  ask_turn(served);
  return {};
}

void Readiness::forget(Served& served) {
  if (served.readiness_ != this) return;
  served.readiness_ = nullptr;
  if (served.fd_ >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, served.fd_, nullptr);
  if (std::erase(served.fd_ >= 0 ? watched_ : blind_, &served) > 0 && served.fd_ >= 0 && !served.patient_) --impatient_;
  for (size_t turns = served.queued_ ? turns_.size() : 0; turns > 0; --turns) {
    Served* other = turns_.pop();
    turns_.push(other == &served ? nullptr : other);
  }
  served.queued_ = false;
}

void Readiness::ask_turn(Served& served) {
  if (served.queued_ || served.readiness_ != this) return;
  served.queued_ = true;
  turns_.push(&served);
}

void Readiness::collect(TimeNs now) {
  if (impatient_ > 0 || now >= next_look_ns_) {
    next_look_ns_ = now + kPatienceNs;
    ask_system();
  }
  for (Served* served : blind_) {
    served->readable_ = served->writable_ = true;
    ask_turn(*served);
  }
}

void Readiness::ask_system() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = epoll_.valid() ? ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0) : 0;
  for (int i = 0; i < count; ++i) {
    Served& served = *static_cast<Served*>(events[static_cast<size_t>(i)].data.ptr);
    const uint32_t what = events[static_cast<size_t>(i)].events;
    if ((what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) served.hung_up_ = true;
    if ((what & EPOLLIN) != 0 || served.hung_up_) served.readable_ = true;
    if ((what & EPOLLOUT) != 0 || served.hung_up_) served.writable_ = true;
    ask_turn(served);
  }
}

bool Readiness::take_turns(TimeNs now) {
  bool moved = false;
  for (size_t turns = turns_.size(); turns > 0; --turns) {
    Served* served = turns_.pop();
    if (served == nullptr) continue;
    served->queued_ = false;
    moved |= served->serve(now);
    if (served->ready()) ask_turn(*served);
  }
  return moved;
}

bool Readiness::arm(std::vector<Wait>& waits) {
  while (!turns_.empty() && turns_.front() == nullptr) (void)turns_.pop();
  if (!turns_.empty()) return false;
  next_look_ns_ = INT64_MIN;  // whatever wakes the waiter may be here
  if (epoll_.valid()) waits.push_back({.fd = epoll_.get()});
  return true;
}

}  // namespace isthmus::transport
