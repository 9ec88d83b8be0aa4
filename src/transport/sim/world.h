// SPDX-License-Identifier: Apache-2.0
// SimWorld: hosts, links and faults in virtual time, all decided by one seed. Each host's Network carries the same protocols that run
// over real sockets. Used by tests and by the job simulator, which steps the world and polls its processes in between. Equal seeds
// and equal calls give equal runs, event for event (trace_hash). Nothing here fails; what goes wrong is what was asked for.
//
//   SimWorld world(seed);
//   const SimHost a = world.add_host("a"), b = world.add_host("b");
//   world.set_link(a, b, {.latency_ns = 10 * kMillisecondNs, .rate_bytes_per_s = 125e6});
//   while (!finished()) { if (!poll_all(world.now()) && !world.step()) break; }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/rng.h"
#include "transport/interface.h"

namespace isthmus::transport {

namespace sim {
struct State;
}

/// A simulated host; numbered from 0.
using SimHost = uint32_t;

/// One direction of the way between two hosts.
struct LinkModel {
  TimeNs latency_ns = 50 * kMicrosecondNs;  ///< one way
  TimeNs jitter_ns = 0;                     ///< up to this much more, drawn per segment; a stream stays in order
  double rate_bytes_per_s = 0;              ///< shared by all streams of this direction; 0: unlimited
  double loss = 0;                          ///< probability that a packet (1460 bytes) is lost
  TimeNs retransmit_ns = 0;                 ///< what a loss costs its stream; 0: one round trip and a millisecond
  double break_chance = 0;                  ///< probability that a segment resets its stream
};

/// How a host goes away.
enum class SimCrash {
  killed,    ///< its processes die: streams are closed or reset, new connections are refused
  vanished,  ///< no word to anybody, ever again
};

class SimWorld {
 public:
  explicit SimWorld(uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // --- layout ------------------------------------------------------------------------------------------------------------------
  SimHost add_host(std::string name);
  /// Valid as long as the world; streams and listeners must be gone before the world is.
  Network& network(SimHost host);
  /// Where `host` is, port 0.
  [[nodiscard]] Address address(SimHost host) const;
  /// For pairs of different hosts without their own link.
  void set_default_link(const LinkModel& model);
  /// Both directions, each with its own rate. Takes effect for segments that depart from now on.
  void set_link(SimHost a, SimHost b, const LinkModel& model);
  void set_directed_link(SimHost from, SimHost to, const LinkModel& model);
  /// A shared bottleneck (a site's uplink): everything from one of `from` to one of `to` also passes it, in this direction.
  void add_cut(std::span<const SimHost> from, std::span<const SimHost> to, double rate_bytes_per_s);

  // --- time --------------------------------------------------------------------------------------------------------------------
  [[nodiscard]] TimeNs now() const;
  /// When the world next changes by itself; kNever if it does not.
  [[nodiscard]] TimeNs next_event() const;
  /// Runs everything up to and including `time` and leaves the clock there.
  void run_until(TimeNs time);
  /// Moves to the next event's time and runs all of that time; false if there is none.
  bool step();
  /// Calls `action` at `time` (now at the earliest): a test's script of faults.
  void at(TimeNs time, std::function<void()> action);

  // --- faults ------------------------------------------------------------------------------------------------------------------
  /// Nothing passes from `from` to `to` until unblocked; streams wait and go on after a retransmission.
  void block(SimHost from, SimHost to);
  void unblock(SimHost from, SimHost to);
  /// block() for a while.
  void clog(SimHost from, SimHost to, TimeNs duration);
  /// Blocks every pair with one end in `side`, both ways; heal() ends all blocks.
  void partition(std::span<const SimHost> side);
  void heal();
  void crash(SimHost host, SimCrash how);
  /// The host's processes stop running while its kernel goes on; the network only keeps the flag for the driver.
  void pause(SimHost host);
  void resume(SimHost host);
  /// Neither crashed nor paused: its processes may be polled.
  [[nodiscard]] bool runs(SimHost host) const;

  // --- accounts ----------------------------------------------------------------------------------------------------------------
  /// A digest of every event so far.
  [[nodiscard]] uint64_t trace_hash() const;
  /// Stream bytes that have arrived at `to` from `from`.
  [[nodiscard]] uint64_t carried_bytes(SimHost from, SimHost to) const;
  /// The world's dice, for tests that draw from the same seed.
  CounterRng& dice();

 private:
  std::unique_ptr<sim::State> state_;
};

}  // namespace isthmus::transport
