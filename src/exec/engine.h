// SPDX-License-Identifier: Apache-2.0
// The engine: carries out plans. Holds the endpoints and running calls of one process, routes frames between transports and runs,
// does long data work piece by piece, and watches over time limits. A state machine: poll(now) never blocks. One per Process, used
// under its lock. Per-call failures end up in tickets; an endpoint that failed once refuses every later call with the same status.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/call.h"
#include "exec/core.h"
#include "exec/endpoint.h"
#include "exec/quick.h"
#include "exec/run.h"
#include "transport/interface.h"

namespace isthmus::exec {

/// How long calls may take; 0 switches a limit off.
struct WatchLimits {
  TimeNs warn_after_ns = 10 * kSecondNs;
  TimeNs operation_timeout_ns = 0;
};

/// What went through one transport.
struct TransportTraffic {
  std::string_view name;
  Traffic traffic;
};

class Engine final : public transport::FrameSink {
 public:
  Engine(const Limits& limits, const WatchLimits& watch, const kernels::Target& kernels, memory::Pool& pool);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Transports are polled in the order in which they were added; each must outlive the engine.
  void add_transport(transport::Transport& transport) {
    transports_.push_back(&transport);
    closed_traffic_.emplace_back();
  }

  /// One rank of a communicator in this process. `peers[r]` and `transports[r]` say how to reach rank r (the own entry is unused).
  Endpoint& open(uint64_t communicator, int32_t rank, std::span<const transport::PeerId> peers,
                 std::span<transport::Transport* const> transports);
  /// The endpoint must be idle (failed calls are). Frames that still come for it are dropped.
  void close(Endpoint& endpoint);
  /// True while a rank of the communicator is open in this process.
  [[nodiscard]] bool has_ranks_of(uint64_t communicator) const;

  /// Queues a call; its number is put into `call.signature.sequence` (collectives). Fails, leaving the ticket alone, when the endpoint has
  /// failed or memory is short; afterwards every outcome is told by the ticket.
  Status submit(Endpoint& endpoint, Call& call);
  /// Ends all calls of the endpoint with `why` and refuses later ones. Only the first reason is kept.
  void fail(Endpoint& endpoint, const Status& why);
  /// Rank `dead` has died. It may have done its part before, so calls under way get a moment to end well, unless they need what can no
  /// longer come; later ones are refused.
  void condemn(Endpoint& endpoint, int32_t dead, const Status& why);

  /// Lets the engine measure how fast memory is read.
  void set_stopwatch(TimeNs (*stopwatch)()) { core_.stopwatch = stopwatch; }

  /// Moves everything that can move. True if anything happened (poll again soon).
  bool poll(TimeNs now);
  /// Looks for a moment, without a clock, for what the call on the short way waits for. Ends at once if there is none.
  void hurry();
  /// True while there is data work that needs this CPU.
  [[nodiscard]] bool busy() const { return !core_.turns.empty() || !core_.finished.empty(); }
  /// True while any call is queued or running.
  [[nodiscard]] bool active() const { return live_runs_ > 0 || quick_.active(); }
  [[nodiscard]] const Counters& counters() const { return core_.counters; }
  /// Bytes by transport, over all communicators there have been; in the order in which the transports were added.
  [[nodiscard]] std::vector<TransportTraffic> traffic() const;
  /// Marks every call and step from now on. The trace outlives the engine; null: no more.
  void trace_into(Trace* trace) { core_.trace = trace; }
  /// The time of the latest poll.
  [[nodiscard]] TimeNs now() const { return core_.now; }
  [[nodiscard]] const Recorder& recorder() const { return core_.recorder; }
  /// The calls under way, one a line: how far they are and what they wait for.
  [[nodiscard]] std::string calls_text() const;
  /// The same in brief of calls on other communicators than the endpoint's; "" if there are none.
  [[nodiscard]] std::string elsewhere_text(const Endpoint& here) const;

  /// Called with a line worth a warning (an operation that takes long and whom it waits for).
  std::function<void(const std::string&)> on_warning = [](const std::string&) {};
  /// Called when something went wrong that the recorder may explain: an operation takes long or has failed because of others. Once per
  /// trouble, however many calls and communicators it hits.
  std::function<void(const std::string& what)> on_incident = [](const std::string&) {};

  // transport::FrameSink
  bool on_whole(transport::PeerId from, const wire::FrameHeader& header, std::span<const std::byte> payload) override;
  std::span<std::byte> on_frame(transport::PeerId from, const wire::FrameHeader& header) override;
  void on_landed(transport::PeerId from, const wire::FrameHeader& header, uint64_t offset, uint64_t bytes) override;
  void on_bytes(transport::PeerId from, const wire::FrameHeader& header, uint64_t offset, std::span<const std::byte> bytes) override;
  void on_sent(transport::SendToken token) override;
  void on_peer_failed(transport::PeerId peer, const Status& why) override;

 private:
  /// A frame for a communicator that this process has not joined yet.
  struct Orphan {
    transport::PeerId from;
    Early early;
  };

  [[nodiscard]] Endpoint* find(uint64_t communicator, int32_t rank);
  [[nodiscard]] Endpoint* trusted(transport::PeerId from, const wire::FrameHeader& header);
  [[nodiscard]] Run* run_of(Endpoint& endpoint, const wire::FrameHeader& header);
  std::span<std::byte> keep_early(Endpoint& endpoint, const wire::FrameHeader& header);
  std::span<std::byte> keep_orphan(transport::PeerId from, const wire::FrameHeader& header);
  void drop_early(Endpoint& endpoint, uint32_t sequence);
  void refuse_late(Endpoint& endpoint, const wire::FrameHeader& header);
  void on_flow_control(Endpoint& endpoint, const wire::FrameHeader& header);
  void start_next(Lane& lane);
  void adopt_early(Run& run);
  bool do_work();
  bool retire_finished();
  void watch();
  void watch(Run& run);
  void warn(Run& run);
  void enter_trace();
  void add_traffic(const Endpoint& endpoint, std::vector<Traffic>& by_transport) const;
  /// A call of the endpoint fails: is that an incident?
  void explain(const Endpoint& endpoint, const Status& why);
  void incident(const std::string& what);
  [[nodiscard]] Result<Run*> take_run();

  // The call on the short way, if there is one.
  void advance_quick();
  void finish_quick();
  void make_run_of_quick();
  void settle_quick() {
    if (quick_.active()) make_run_of_quick();
  }

  Core core_;
  Quick quick_;
  WatchLimits watch_limits_;
  std::vector<transport::Transport*> transports_;
  std::vector<Traffic> closed_traffic_;  ///< by transport: of endpoints that are closed
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Endpoint* last_found_ = nullptr;
  std::vector<std::unique_ptr<Run>> runs_;  ///< by slot
  std::vector<uint32_t> free_slots_;
  std::vector<Orphan> orphans_;
  using Membership = std::pair<uint64_t, int32_t>;  ///< communicator, rank
  /// The latest whose late frames are dropped rather than kept. Other ranks of this process may yet open theirs.
  std::set<Membership> closed_;
  Fifo<Membership> closed_in_order_;
  uint32_t live_runs_ = 0;
  TimeNs last_watch_ns_ = 0;
  TimeNs same_incident_until_ns_ = 0;
};

}  // namespace isthmus::exec
