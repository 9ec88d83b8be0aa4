// SPDX-License-Identifier: Apache-2.0
// SimWorld's clock, routes and faults. Called by tests and the job simulator; cannot fail.
#include "transport/sim/world.h"

#include <algorithm>

#include "transport/sim/connection.h"
#include "transport/sim/network.h"
#include "transport/sim/state.h"

namespace isthmus::transport {

namespace sim {

namespace {
constexpr TimeNs kSameHostLatencyNs = 10 * kMicrosecondNs;
}

void Events::at(TimeNs time, std::function<void()> action) {
  heap_.push_back({.time = std::max(time, now_), .tie = dice_.next_u64(), .action = std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Events::run_one() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.time;
  event.action();
}

void Events::run_until(TimeNs time) {
  while (next() <= time) run_one();
  now_ = std::max(now_, time);
}

HostState::HostState() = default;
HostState::~HostState() = default;

double Route::rate_bytes_per_s() const {
  double rate = own.rate_bytes_per_s;
  for (const Shaper* cut : cuts) {
    if (rate <= 0 || (cut->rate_bytes_per_s > 0 && cut->rate_bytes_per_s < rate)) rate = cut->rate_bytes_per_s;
  }
  return rate;
}

TimeNs Route::depart(TimeNs time, uint64_t bytes) {
  time = own.pass(time, bytes);
  for (Shaper* cut : cuts) time = cut->pass(time, bytes);
  return time;
}

Route& State::route(SimHost from, SimHost to) {
  const auto [entry, fresh] = routes.try_emplace({from, to});
  if (fresh) entry->second.set(from == to ? LinkModel{.latency_ns = kSameHostLatencyNs} : default_link);
  return entry->second;
}

std::vector<std::shared_ptr<Connection>> State::live_connections() {
  std::erase_if(connections, [](const std::weak_ptr<Connection>& weak) { return weak.expired(); });
  std::vector<std::shared_ptr<Connection>> live;
  for (const std::weak_ptr<Connection>& weak : connections) live.push_back(weak.lock());
  return live;
}

}  // namespace sim

SimWorld::SimWorld(uint64_t seed) : state_(std::make_unique<sim::State>(seed)) {}
SimWorld::~SimWorld() = default;

// --- layout ------------------------------------------------------------------------------------------------------------------

SimHost SimWorld::add_host(std::string name) {
  const auto host = static_cast<SimHost>(state_->hosts.size());
  const uint32_t number = host + 1;
  Address address{.family = 4};
  address.bytes = {10, static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  auto state = std::make_unique<sim::HostState>();
  state->name = std::move(name);
  state->address = address;
  state->network = std::make_unique<sim::SimNetwork>(*state_, host);
  state_->hosts.push_back(std::move(state));
  return host;
}

Network& SimWorld::network(SimHost host) { return *state_->hosts[host]->network; }
Address SimWorld::address(SimHost host) const { return state_->hosts[host]->address; }

void SimWorld::set_default_link(const LinkModel& model) {
  state_->default_link = model;
  for (auto& [pair, route] : state_->routes) {
    if (!route.own_model && pair.first != pair.second) route.set(model);
  }
}

void SimWorld::set_link(SimHost a, SimHost b, const LinkModel& model) {
  set_directed_link(a, b, model);
  set_directed_link(b, a, model);
}

void SimWorld::set_directed_link(SimHost from, SimHost to, const LinkModel& model) {
  sim::Route& route = state_->route(from, to);
  route.set(model);
  route.own_model = true;
}

void SimWorld::add_cut(std::span<const SimHost> from, std::span<const SimHost> to, double rate_bytes_per_s) {
  sim::Shaper& cut = state_->cuts.emplace_back(sim::Shaper{.rate_bytes_per_s = rate_bytes_per_s});
  for (const SimHost a : from) {
    for (const SimHost b : to) state_->route(a, b).cuts.push_back(&cut);
  }
}

// --- time --------------------------------------------------------------------------------------------------------------------

TimeNs SimWorld::now() const { return state_->events.now(); }
TimeNs SimWorld::next_event() const { return state_->events.next(); }
void SimWorld::run_until(TimeNs time) { state_->events.run_until(time); }
void SimWorld::at(TimeNs time, std::function<void()> action) { state_->events.at(time, std::move(action)); }

bool SimWorld::step() {
  if (next_event() == kNever) return false;
  run_until(next_event());
  return true;
}

// --- faults ------------------------------------------------------------------------------------------------------------------

void SimWorld::block(SimHost from, SimHost to) { state_->route(from, to).blocked = true; }

void SimWorld::unblock(SimHost from, SimHost to) {
  sim::Route& route = state_->route(from, to);
  if (!route.blocked) return;
  route.blocked = false;
  for (const auto& connection : state_->live_connections()) connection->unblocked(from, to);
}

void SimWorld::clog(SimHost from, SimHost to, TimeNs duration) {
  block(from, to);
  at(now() + duration, [this, from, to] { unblock(from, to); });
}

void SimWorld::partition(std::span<const SimHost> side) {
  const auto inside = [side](SimHost host) { return std::find(side.begin(), side.end(), host) != side.end(); };
  const auto count = static_cast<SimHost>(state_->hosts.size());
  for (SimHost a = 0; a < count; ++a) {
    for (SimHost b = 0; b < count; ++b) {
      if (inside(a) != inside(b)) block(a, b);
    }
  }
}

void SimWorld::heal() {
  for (const auto& [pair, route] : state_->routes) {
    if (route.blocked) unblock(pair.first, pair.second);
  }
}

void SimWorld::crash(SimHost host, SimCrash how) {
  sim::HostState& state = *state_->hosts[host];
  state.crashed = true;
  state.vanished = how == SimCrash::vanished;
  state.listeners.clear();
  for (const auto& connection : state_->live_connections()) {
    for (const int end : {sim::Connection::kClient, sim::Connection::kServer}) {
      if (connection->host(end) == host) connection->host_gone(end, how);
    }
  }
}

void SimWorld::pause(SimHost host) { state_->hosts[host]->paused = true; }
void SimWorld::resume(SimHost host) { state_->hosts[host]->paused = false; }
bool SimWorld::runs(SimHost host) const { return !state_->hosts[host]->crashed && !state_->hosts[host]->paused; }

// --- accounts ----------------------------------------------------------------------------------------------------------------

uint64_t SimWorld::trace_hash() const { return state_->events.hash(); }
uint64_t SimWorld::carried_bytes(SimHost from, SimHost to) const { return state_->route(from, to).carried_bytes; }
CounterRng& SimWorld::dice() { return state_->dice; }

}  // namespace isthmus::transport
