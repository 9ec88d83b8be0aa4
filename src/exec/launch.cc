// SPDX-License-Identifier: Apache-2.0
// Launches and streams. Called under the Process's lock; failures are reported by status().
#include "exec/launch.h"

#include <algorithm>

namespace isthmus::exec {

Launch::Item& Launch::add() {
  if (used_ == items_.size()) items_.push_back(std::make_unique<Item>());
  return *items_[used_++];
}

bool Launch::submit(Engine& engine) {
  submitted_ = true;
  bool any = used_ == 0;
  for (size_t i = 0; i < used_; ++i) {
    Item& item = *items_[i];
    if (item.begun) continue;
    Observer* const observer = item.endpoint == nullptr ? nullptr : item.endpoint->observer;
    if (observer != nullptr && item.call.call_class() == wire::CallClass::collective && !observer->admits(item.call)) {
      submitted_ = false;
      continue;
    }
    any = item.begun = true;
    item.call.user_buffers = item.user_buffers;
    item.call.user_bytes = item.user_bytes;
    item.call.user_signatures = item.user_signatures;
    item.call.ticket = &item.ticket;
    item.call.caller = on_stream_ ? nullptr : this;
    item.ticket.done = item.endpoint == nullptr;
    if (item.ticket.done) continue;
    if (Status refused = engine.submit(*item.endpoint, item.call); !refused.ok()) {
      if (item.endpoint->condemned.ok()) engine.fail(*item.endpoint, refused);  // else the calls under way may still end well
      item.ticket.status = refused;
      item.ticket.done = true;
    }
  }
  return any;
}

bool Launch::done() const {
  return submitted_ && std::all_of(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(used_),
                                   [](const auto& item) { return item->ticket.done; });
}

Status Launch::status() const {
  for (size_t i = 0; i < used_; ++i) {
    if (!items_[i]->ticket.status.ok()) return items_[i]->ticket.status;
  }
  return {};
}

bool Launch::awaits(const Endpoint& endpoint) const {
  return std::any_of(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(used_),
                     [&](const auto& item) { return item->endpoint == &endpoint && !(item->begun && item->ticket.done); });
}

void Launch::withdraw(const Endpoint& endpoint, const Status& why) {
  for (size_t i = 0; i < used_; ++i) {
    Item& item = *items_[i];
    if (item.endpoint != &endpoint || item.begun) continue;
    item.endpoint = nullptr;
    item.ticket.status = why;
  }
}

void Launch::clear() {
  for (size_t i = 0; i < used_; ++i) {
    Item& item = *items_[i];
    item.endpoint = nullptr;
    item.call = Call{};
    item.ticket = Ticket{};
    item.begun = false;
    item.user_buffers.clear();
    item.user_bytes.clear();
    item.user_signatures.clear();
  }
  used_ = 0;
  submitted_ = on_stream_ = false;
}

bool Stream::awaits(const Endpoint& endpoint) const {
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (queue_.at(i)->awaits(endpoint)) return true;
  }
  return false;
}

void Stream::withdraw(const Endpoint& endpoint, const Status& why) {
  for (size_t i = 0; i < queue_.size(); ++i) queue_.at(i)->withdraw(endpoint, why);
}

bool Stream::poll(Engine& engine, std::vector<std::unique_ptr<Launch>>& spare) {
  bool changed = false;
  while (!queue_.empty()) {
    Launch& head = *queue_.front();
    if (!head.submitted()) {
      changed |= head.submit(engine);
    }
    if (!head.done()) break;
    if (status_.ok()) status_ = head.status();
    head.clear();
    spare.push_back(queue_.pop());
    changed = true;
  }
  return changed;
}

}  // namespace isthmus::exec
