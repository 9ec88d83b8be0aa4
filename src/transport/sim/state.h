// SPDX-License-Identifier: Apache-2.0
// What a SimWorld consists of: the event queue, the routes between hosts with their queues, the hosts. Private to sim/; cannot fail.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "transport/sim/world.h"

namespace isthmus::transport::sim {

class Connection;
class SimListener;
class SimNetwork;

/// Virtual time: actions in order of time, simultaneous ones in an order drawn from the seed.
class Events {
 public:
  explicit Events(CounterRng& dice) : dice_(dice) {}

  [[nodiscard]] TimeNs now() const { return now_; }
  [[nodiscard]] TimeNs next() const { return heap_.empty() ? kNever : heap_.front().time; }
  [[nodiscard]] uint64_t hash() const { return hash_; }

  void at(TimeNs time, std::function<void()> action);
  void after(TimeNs delay, std::function<void()> action) { at(now_ + delay, std::move(action)); }
  /// Runs the earliest action. There must be one.
  void run_one();
  void run_until(TimeNs time);
  /// Adds what happened to the trace.
  void note(uint64_t what) { hash_ = hash_combine(hash_combine(hash_, static_cast<uint64_t>(now_)), what); }

 private:
  struct Event {
    TimeNs time;
    uint64_t tie;
    std::function<void()> action;
  };
  static bool later(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.tie > b.tie; }

  CounterRng& dice_;
  std::vector<Event> heap_;
  TimeNs now_ = 0;
  uint64_t hash_ = 0;
};

/// A first-come first-served line of a given rate.
struct Shaper {
  double rate_bytes_per_s = 0;
  TimeNs free_at = 0;

  /// When `bytes` that come at `time` have passed.
  TimeNs pass(TimeNs time, uint64_t bytes) {
    if (rate_bytes_per_s <= 0) return time;
    free_at = std::max(free_at, time) + std::llround(static_cast<double>(bytes) * 1e9 / rate_bytes_per_s);
    return free_at;
  }
};

/// One direction between two hosts.
struct Route {
  LinkModel model;
  bool own_model = false;
  bool blocked = false;
  Shaper own;
  std::vector<Shaper*> cuts;
  uint64_t carried_bytes = 0;

  void set(const LinkModel& to) {
    model = to;
    own.rate_bytes_per_s = to.rate_bytes_per_s;
  }
  /// The least rate on the way; 0: unlimited.
  [[nodiscard]] double rate_bytes_per_s() const;
  /// When `bytes` departing at `time` have left the last line.
  TimeNs depart(TimeNs time, uint64_t bytes);
};

struct HostState {
  HostState();
  ~HostState();

  std::string name;
  Address address;
  bool crashed = false;
  bool vanished = false;
  bool paused = false;
  uint16_t next_port = 40'000;
  std::map<uint16_t, SimListener*> listeners;
  std::unique_ptr<SimNetwork> network;
};

struct State {
  explicit State(uint64_t seed) : dice(seed, 0), events(dice) {}

  CounterRng dice;
  Events events;
  std::vector<std::unique_ptr<HostState>> hosts;
  LinkModel default_link;
  std::map<std::pair<SimHost, SimHost>, Route> routes;
  std::deque<Shaper> cuts;
  std::vector<std::weak_ptr<Connection>> connections;
  uint64_t connections_made = 0;

  Route& route(SimHost from, SimHost to);
  /// Bytes of `from` reach `to` at this moment.
  [[nodiscard]] bool passes(SimHost from, SimHost to) { return !hosts[to]->vanished && !hosts[from]->vanished && !route(from, to).blocked; }
  /// Every connection that still has an end.
  std::vector<std::shared_ptr<Connection>> live_connections();
};

}  // namespace isthmus::transport::sim
