// SPDX-License-Identifier: Apache-2.0
// Everything that exists once per process: settings, log, memory, transports, engine, plan cache, streams. A value with a
// poll(now); the API library holds one, the simulator makes one per rank. Not thread-safe: the driver (or the simulator) owns it.
// Creation fails where a setting or the network cannot be used.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "codec/named.h"
#include "exec/card.h"
#include "exec/engine.h"
#include "exec/launch.h"
#include "exec/plan_cache.h"
#include "memory/pool.h"
#include "memory/shared_segment.h"
#include "transport/interface.h"

namespace isthmus::exec {

/// Where and who this process is; the simulator makes these up.
struct Identity {
  transport::ProcessId process{};
  uint64_t host = 0;     ///< equal for processes that may share memory
  std::string hostname;  ///< for messages
  int32_t pid = 0;
  std::string region, site, zone;   ///< what they and the building are called; "": not known. Without any the host is a site of its own
  CpuSet cpu_set;                   ///< on which it may run
  unsigned cpu_quota = UINT32_MAX;  ///< how many of them it may use at a time
};

/// Whatever is polled with a process.
class Polled {
 public:
  virtual ~Polled() = default;
  /// True if anything happened.
  virtual bool poll(TimeNs now) = 0;
};

class Process {
 public:
  /// `network` must outlive the process; null: other hosts cannot be reached.
  Process(Settings settings, Identity identity, Logger log, transport::Network* network);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const Logger& log() const { return log_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] PlanCache& plans() { return plans_; }
  /// The codecs that calls of this process have named.
  [[nodiscard]] codec::Codecs& codecs() { return codecs_; }
  [[nodiscard]] transport::Network* network() { return network_; }
  [[nodiscard]] const memory::Pool& pool() const { return pool_; }
  /// Memory of ncclMemAlloc.
  [[nodiscard]] memory::SharedSegments& segments() { return segments_; }

  /// The operations that trust rests on; fails where libcrypto is missing and ISTHMUS_AUTH does not do without.
  [[nodiscard]] Result<const Crypto*> crypto() const;
  /// What other processes must know about this one. Opens the transports to other processes when first called.
  Result<ProcessCard> card();
  struct Route {
    transport::PeerId peer = 0;
    transport::Transport* transport = nullptr;
  };
  /// How to reach rank `rank` of a communicator, which lives in the process that `card` describes.
  Result<Route> route_to(const ProcessCard& card, uint64_t communicator, const Key& key, int32_t rank);
  /// One rank of the communicator is closed. What all ranks of this process share stays until the last.
  void forget_communicator(uint64_t communicator);
  /// Connections to this process that were refused.
  [[nodiscard]] uint64_t refused_connections() const { return refused_connections_; }
  /// What the process has done so far: calls, bytes by transport, what was refused.
  [[nodiscard]] std::string counters_text() const;

  /// The CPUs of the ranks on this host, of one communicator: decides whether waiting may spin.
  void note_local_ranks(std::span<const CpuSet> ranks) {
    may_spin_ = may_spin_ && enough_cpus(identity_.cpu_set, identity_.cpu_quota, ranks);
  }
  [[nodiscard]] bool may_spin() const { return may_spin_; }

  /// An empty launch, with the memory of an earlier one.
  [[nodiscard]] std::unique_ptr<Launch> take_launch();
  void give_launch(std::unique_ptr<Launch> launch);
  /// Begins its calls, those that are held back as soon as they may. It must stay until it is done, or is given back.
  void begin(Launch& launch);

  void add_polled(Polled& polled) { polled_.push_back(&polled); }
  void remove_polled(const Polled& polled) { std::erase(polled_, &polled); }

  /// Host streams, by handle number. Handles are never reused.
  uint64_t create_stream();
  [[nodiscard]] Stream* find_stream(uint64_t handle);
  /// True if calls on streams have not begun.
  [[nodiscard]] bool has_backlog() const;
  void destroy_stream(uint64_t handle) { streams_.erase(handle); }
  /// A call on that endpoint waits or runs in a stream.
  [[nodiscard]] bool awaits(const Endpoint& endpoint) const;
  /// Calls on that endpoint that wait in streams end with `why`.
  void withdraw(const Endpoint& endpoint, const Status& why);

  /// Moves whatever can move; true if anything happened.
  bool poll(TimeNs now);
  /// True while polling again at once is useful, or work would stand still without a poll.
  [[nodiscard]] bool busy() const { return engine_.busy(); }
  [[nodiscard]] bool active() const { return engine_.active(); }
  /// Descriptors to block on; false: do not block, something has come.
  bool arm(std::vector<transport::Wait>& waits);
  void disarm();

 private:
  Status open_transports();
  void report_incident(const std::string& what);
  void open_trace();
  void write_trace();

  Settings settings_;
  Identity identity_;
  Logger log_;
  memory::Pool pool_;
  memory::SharedSegments segments_;
  transport::Network* network_;
  Engine engine_;
  codec::Codecs codecs_;  ///< before the plans, which point to them
  PlanCache plans_;
  std::unique_ptr<Trace> trace_;  ///< null: off
  std::ofstream trace_file_;
  uint64_t refused_connections_ = 0;
  std::vector<std::unique_ptr<transport::Transport>> transports_;  ///< loopback first
  transport::Transport* shm_ = nullptr;
  transport::Transport* tcp_ = nullptr;
  struct KnownPeer {
    transport::ProcessId process;
    transport::Transport* transport;
  };
  std::vector<KnownPeer> peers_;  ///< by PeerId; 0 is this process
  std::vector<std::unique_ptr<Launch>> spare_launches_;
  std::vector<Launch*> held_launches_;  ///< not all of their calls have begun
  std::vector<Polled*> polled_;
  std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams_;
  uint64_t next_stream_;
  bool may_spin_ = true;  ///< in every communicator so far there was a CPU for every rank of this host
};

}  // namespace isthmus::exec
