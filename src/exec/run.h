// SPDX-License-Identifier: Apache-2.0
// One call being carried out on one rank: the step machine. Fed by the engine with frames and by its own completed steps; sends
// through the endpoint's flows. All methods run under the Process's lock. A failure (wrong key, wrong size, lost peer, no memory)
// ends the run and is what its ticket reports.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/buffers.h"
#include "exec/call.h"
#include "exec/core.h"
#include "exec/endpoint.h"

namespace isthmus::exec {

/// What one rank needs of another before its call can end.
struct Need {
  int32_t rank = -1;  ///< of the other
  wire::CallClass call_class = wire::CallClass::collective;
  bool message = true;   ///< a message of the other's; else: its receive
  uint32_t number = 0;   ///< of the collective; send_recv: of the message in its pair and direction
  uint32_t ordinal = 0;  ///< of the message in the collective
  friend bool operator==(const Need&, const Need&) = default;
};

class Quick;

class Run {
 public:
  explicit Run(Core& core) : core_(core), buffers_(core) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Takes the call over and binds it; nothing moves yet. `slot` names this run in send tokens.
  Status prepare(Endpoint& endpoint, const Call& call, uint32_t slot);
  /// Takes over a call that began on the short way, with its buffers, and goes on where that stands.
  void resume(Endpoint& endpoint, Quick& quick, uint32_t slot);
  /// Begins: runs what is ready, adopts frames that came early, tells peers what has room.
  void start();
  /// Ends the run with `why` (once; later failures are ignored).
  void fail(const Status& why);
  /// Ends a run that was never started.
  void reject(const Status& why);
  /// Empties the run for its next use.
  void clear();

  // --- from the engine -------------------------------------------------------------------------------------------------------
  [[nodiscard]] bool wants(const wire::FrameHeader& header) const;  ///< is this the call that the frame belongs to?
  std::span<std::byte> on_frame(const wire::FrameHeader& header);
  void on_landed(const wire::FrameHeader& header, uint64_t bytes);
  void on_bytes(const wire::FrameHeader& header, std::span<const std::byte> bytes);
  void on_control(const wire::FrameHeader& header);
  void on_sent(uint32_t step);
  /// The flow to that rank got credit or a grant: blocked sends may go.
  void on_room(int32_t rank);
  /// A frame that came before the run started.
  void adopt(Early&& early);
  /// One bite of long work; true while there is more.
  bool work();

  // --- for the engine and its watch --------------------------------------------------------------------------------------------
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] Endpoint& endpoint() const { return *endpoint_; }
  [[nodiscard]] const Signature& signature() const { return signature_; }
  [[nodiscard]] wire::CallClass call_class() const { return class_; }
  [[nodiscard]] Ticket* ticket() const { return ticket_; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] uint32_t slot() const { return slot_; }
  /// Changes whenever the run is emptied, so that tokens and queued work of an earlier call are told apart.
  [[nodiscard]] uint16_t generation() const { return generation_; }
  [[nodiscard]] TimeNs started_ns() const { return started_ns_; }
  /// The same exactly, if its endpoint is timed.
  [[nodiscard]] TimeNs timed_from_ns() const { return timed_from_ns_; }
  /// The first watch after the start sets the clock: submitting knows no time.
  void stamp(TimeNs now) {
    if (std::exchange(stamped_, true)) return;
    started_ns_ = last_traffic_ns_ = now;
    if (suspect_since_ns_ != 0) suspect_since_ns_ = now;
  }
  /// A transport has lost a peer that this run needs. The control plane, which knows who died first, is given a moment to say so.
  void bereave(const Status& why) {
    if (bereaved_.ok()) bereaved_ = why;
  }
  [[nodiscard]] const Status& bereaved() const { return bereaved_; }
  [[nodiscard]] TimeNs bereaved_since(TimeNs now) { return bereaved_since_ns_ == 0 ? bereaved_since_ns_ = now : bereaved_since_ns_; }
  [[nodiscard]] TimeNs last_traffic_ns() const { return last_traffic_ns_; }
  /// True if a message to or from that rank is still missing.
  [[nodiscard]] bool involves(int32_t rank) const;
  /// True when it has waited so long and, after a first warning, whenever the wait has doubled.
  [[nodiscard]] bool warning_due(TimeNs waited_ns, TimeNs first_ns) {
    if (waited_ns < std::max(first_ns, 2 * warned_after_ns_)) return false;
    warned_after_ns_ = waited_ns;
    asked_ = false;
    return true;
  }
  /// True once, a while before a warning is due.
  [[nodiscard]] bool asking_due(TimeNs waited_ns, TimeNs first_ns, TimeNs ahead_ns) {
    return waited_ns + ahead_ns >= std::max(first_ns, 2 * warned_after_ns_) && !std::exchange(asked_, true);
  }
  /// True once for every time of silence.
  [[nodiscard]] bool stall_once() { return std::exchange(stalled_at_ns_, last_traffic_ns_) != last_traffic_ns_; }
  /// Since when something does not fit (0: nothing); if nobody explains it in time, the run fails with what is known here.
  [[nodiscard]] TimeNs suspect_since_ns() const { return suspect_since_ns_; }
  [[nodiscard]] Status suspicion() const;
  /// Calls `visit(rank)` for every rank from or to which something is missing.
  template <typename Visit>
  void for_each_missing(Visit&& visit) const {
    for (const Program::Peer& peer : program_->peers) {
      if (involves(peer.rank)) visit(peer.rank);
    }
  }
  /// Ranks from which a message is missing, for warnings: "3, 9".
  [[nodiscard]] std::string missing_ranks() const;

  // --- run_needs.cc: what must come before it can go on ---------------------------------------------------------------------------
  /// Who made the call and waits for it; null if nobody does.
  [[nodiscard]] const void* caller() const { return caller_; }
  /// What it cannot end without.
  void needs(std::vector<Need>& needs) const;
  /// What it cannot send the message without that `rank` asks for; nothing if that is on its way.
  void needs_to_send(int32_t rank, const Need& asked, std::vector<Need>& needs) const;
  /// What `rank` asks for belongs to an earlier call; belongs to this one.
  [[nodiscard]] bool is_past(int32_t rank, const Need& asked) const;
  [[nodiscard]] bool contains(int32_t rank, const Need& asked) const;

  // --- run_trace.cc: only while tracing is on -----------------------------------------------------------------------------------
  /// What began when the time was not known began now.
  void trace_settle(TimeNs now);
  /// The call is over.
  void trace_call();

  // --- run_report.cc: words -----------------------------------------------------------------------------------------------------
  /// "call #7 allreduce count 100 float sum (ring)"; of a group its sends and receives.
  [[nodiscard]] std::string to_text() const;
  /// "3 of 12 steps done; waits for message #2 from rank 3, ...".
  [[nodiscard]] std::string progress_text() const;
  /// Puts an event of this call into the flight recorder.
  uint64_t note(Moment moment, int32_t peer = -1) {
    return core_.recorder.add(moment, endpoint_->communicator, endpoint_->rank, signature_, how_, peer);
  }
  /// Its own event there.
  [[nodiscard]] uint64_t record_number() const { return record_number_; }

 private:
  enum class Phase : uint8_t { absent, landing, applying, staged, offered, consumed };
  /// A message to come.
  /// A step that moves more bytes than are worth doing at once; done piece by piece so that nobody else waits long.
  struct Work {
    uint32_t step;
    uint64_t done;  ///< bytes; of a codec's step as Buffers::code counts

    /// For heaps, whose greatest comes first: the earliest step.
    friend bool operator<(const Work& a, const Work& b) { return a.step > b.step; }
  };

  struct Inbound {
    Phase phase = Phase::absent;
    bool stage_offer = false;  ///< the offer asks for a copy as soon as there is room
    uint8_t carried = 0;       ///< bytes of a split element in `carry`
    std::array<std::byte, 8> carry{};
    std::array<std::byte, wire::RemoteSpan::kBytes> remote{};
    uint64_t arrived = 0;
    uint64_t eager_bytes = 0;  ///< credit to return once consumed
    double bytes_per_ns = 0;   ///< of the piece that was read fastest from the sender's memory; 0: not measured
    memory::Block stage;
  };
  struct PeerState {
    uint32_t granted = 0;    ///< my messages with a lower ordinal have room at the peer
    uint32_t landable = 0;   ///< the peer's messages with a lower ordinal have room here
    uint32_t announced = 0;  ///< the limit I have told the peer
    bool announces = false;  ///< tell the peer whenever the limit rises
    bool want_sent = false;
    uint32_t blocked = UINT32_MAX;          ///< first send that waits for a grant or credit (chained through blocked_next_)
    uint32_t last_blocked = UINT32_MAX;     ///< last of that chain, while there is one
    uint32_t offered = 0;                   ///< my messages that the peer has been offered and is not done with
    uint32_t send_base = 0, recv_base = 0;  ///< send_recv: number of the first message in the pair
  };

  void take_over(Endpoint& endpoint, const Call& call, uint32_t slot);
  void take_message(uint32_t inbound, const Quick& quick);
  void reset_steps();
  void go();

  // run.cc: the machine
  void drain();
  void dispatch(uint32_t step);
  void receivable(uint32_t step);
  void complete(uint32_t step);
  void finish();
  [[nodiscard]] uint64_t sent_bytes() const;
  void consumed(uint32_t step, Inbound& message);
  void suspect(const wire::FrameHeader& header);
  void heard(int32_t rank) {
    last_traffic_ns_ = core_.now;
    if (heard_) return;
    heard_ = true;
    if (Event* event = core_.recorder.find(record_number_); event != nullptr) event->first_from = rank;
  }
  void record(const Call& call);
  [[nodiscard]] uint32_t step_of(const wire::FrameHeader& header);
  std::span<std::byte> begin_message(uint32_t step, Inbound& message, const wire::FrameHeader& header);
  std::span<std::byte> stage(Inbound& message, uint64_t bytes);
  void take_copy(uint32_t step, Inbound& message);
  void arrived(uint32_t step, Inbound& message);

  [[nodiscard]] bool has_arrived(uint32_t step) const;

  // run_needs.cc
  [[nodiscard]] bool is_absent(uint32_t step) const;
  [[nodiscard]] bool is_held_by_peer(uint32_t step) const;
  [[nodiscard]] Need need_of(uint32_t step) const;
  [[nodiscard]] uint32_t first_number(int32_t rank, bool message_from_me) const;

  // run_trace.cc
  void trace_start();
  void trace_begin(uint32_t step);
  void trace_end(uint32_t step);

  // run_send.cc: sends, grants, credit
  void send(uint32_t step);
  bool push(uint32_t step, std::span<const std::byte> bytes);
  bool offer(uint32_t step, std::span<const std::byte> bytes);
  void block(uint32_t step, uint32_t peer);
  void append_blocked(PeerState& state, uint32_t step);
  void retry_blocked(uint32_t peer);
  void advance_landable(uint32_t peer);
  void send_control(uint32_t peer, wire::FrameType type, uint32_t ordinal, uint64_t length = 0, uint8_t flags = 0);
  void send_done(uint32_t step, const Inbound& message);
  [[nodiscard]] wire::FrameHeader header_to(uint32_t peer, wire::FrameType type, uint32_t ordinal) const;
  [[nodiscard]] uint32_t ordinal_of(const wire::FrameHeader& header, uint32_t peer) const;
  [[nodiscard]] uint64_t key_of(uint32_t step) const;
  [[nodiscard]] bool is_send_recv() const { return class_ == wire::CallClass::send_recv; }

  // run_data.cc: memory and arithmetic
  void push_work(uint32_t step) { push_work({.step = step, .done = 0}); }
  void push_work(const Work& work);
  bool bite(uint32_t step, uint64_t& done);
  Status bind(const Call& call);
  [[nodiscard]] std::byte* at(const plan::Chunk& chunk) const { return buffers_.at(chunk); }
  [[nodiscard]] uint64_t bytes_of(const plan::Chunk& chunk) const { return buffers_.bytes_of(chunk); }
  bool view_piece(const plan::Step& step, Inbound& message, uint64_t offset, uint64_t bytes);
  bool measured_piece(const plan::Step& step, Inbound& message, uint64_t offset, uint64_t bytes);
  void stream_piece(const plan::Step& step, Inbound& message, std::span<const std::byte> bytes);

  Core& core_;
  Endpoint* endpoint_ = nullptr;
  std::shared_ptr<const Program> program_;
  Signature signature_;
  std::string_view how_;
  wire::CallClass class_ = wire::CallClass::collective;
  Ticket* ticket_ = nullptr;
  const void* caller_ = nullptr;
  uint64_t record_number_ = 0;
  Status status_;
  uint64_t key_ = 0;
  uint32_t slot_ = 0;
  bool running_ = false;
  bool draining_ = false;
  bool stamped_ = false, heard_ = false, asked_ = false;
  TimeNs stalled_at_ns_ = kNever;  ///< the last traffic before it was last found waiting
  TimeNs warned_after_ns_ = 0;     ///< how long it had waited at the latest warning
  Status bereaved_;
  TimeNs bereaved_since_ns_ = 0;
  TimeNs suspect_since_ns_ = 0;
  int32_t suspect_rank_ = -1;
  uint16_t generation_ = 0;
  TimeNs started_ns_ = 0, last_traffic_ns_ = 0, timed_from_ns_ = 0;

  Buffers buffers_;
  std::vector<uint64_t> user_keys_;  ///< send_recv: key per region

  uint32_t remaining_ = 0;
  std::vector<uint32_t> pending_;  ///< per step: predecessors to come; kDone when complete
  std::vector<uint32_t> ready_;
  std::vector<Work> work_;              ///< a heap, the earliest step of the plan first
  bool has_turn_ = false;               ///< the engine knows that there is work
  std::vector<uint32_t> blocked_next_;  ///< per step: next blocked send to the same peer
  std::vector<Inbound> inbound_;
  std::vector<PeerState> peers_;
  std::vector<TimeNs> began_ns_;  ///< while tracing: per step, then the call; kUnknown: not yet, 0: between polls
  std::vector<std::array<std::byte, wire::RemoteSpan::kBytes>> offers_;  ///< per send: the offer's payload until it is out
};

}  // namespace isthmus::exec
