// SPDX-License-Identifier: Apache-2.0
// Routing, lanes and polling. Called by the driver (poll), by comm/ (open, submit, fail) and by transports (frames). What frames
// claim is checked here: a sender may only speak for ranks that live in its process, and only within its credit.
#include "exec/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/relax.h"

namespace isthmus::exec {

using wire::FrameHeader;
using wire::FrameType;

namespace {
constexpr size_t kMaxOrphans = 4096;
constexpr size_t kMostClosed = 1024;
constexpr TimeNs kWatchPeriodNs = 10 * kMillisecondNs;
}  // namespace

Engine::Engine(const Limits& limits, const WatchLimits& watch, const kernels::Target& kernels, memory::Pool& pool)
    : core_(limits, kernels, pool), quick_(core_), watch_limits_(watch) {}

Engine::~Engine() = default;

Endpoint& Engine::open(uint64_t communicator, int32_t rank, std::span<const transport::PeerId> peers,
                       std::span<transport::Transport* const> transports) {
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->communicator = communicator;
  endpoint->rank = rank;
  endpoint->ranks = static_cast<int32_t>(peers.size());
  endpoint->flows.resize(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    endpoint->flows[i].peer = peers[i];
    endpoint->flows[i].transport = transports[i];
    endpoint->flows[i].credit_bytes = core_.limits.eager_bytes;
  }
  core_.recorder.add({.communicator = communicator, .count = peers.size(), .rank = rank, .moment = Moment::opened});
  endpoints_.push_back(std::move(endpoint));
  Endpoint& opened = *endpoints_.back();
  for (Orphan& orphan : orphans_) {
    const FrameHeader& header = orphan.early.header;
    if (header.communicator != communicator || header.destination != rank || trusted(orphan.from, header) == nullptr) continue;
    if (header.type == FrameType::credit || (header.type == FrameType::grant && header.call_class == wire::CallClass::send_recv)) {
      on_flow_control(opened, header);
    } else {
      opened.keep_early(opened.flows[static_cast<size_t>(header.source)], std::move(orphan.early));
    }
    orphan.early.header.communicator = 0;
  }
  std::erase_if(orphans_, [](const Orphan& orphan) { return orphan.early.header.communicator == 0; });
  return opened;
}

void Engine::close(Endpoint& endpoint) {
  if (endpoint.quick) make_run_of_quick();
  retire_finished();
  assert(endpoint.idle());
  const Membership membership{endpoint.communicator, endpoint.rank};
  core_.recorder.add({.communicator = endpoint.communicator, .rank = endpoint.rank, .moment = Moment::closed});
  add_traffic(endpoint, closed_traffic_);
  last_found_ = nullptr;
  quick_.forget(endpoint);
  std::erase_if(endpoints_, [&](const auto& owned) { return owned.get() == &endpoint; });
  if (!closed_.insert(membership).second) return;
  closed_in_order_.push(membership);
  if (closed_in_order_.size() > kMostClosed) closed_.erase(closed_in_order_.pop());
}

bool Engine::has_ranks_of(uint64_t communicator) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& e) { return e->communicator == communicator; });
}

Result<Run*> Engine::take_run() {
  if (!core_.bounce) {
    ISTHMUS_ASSIGN(core_.bounce, core_.pool.lend(core_.limits.piece_bytes));
  }
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(runs_.size()));
    runs_.push_back(std::make_unique<Run>(core_));
    free_slots_.reserve(runs_.size());
  }
  return runs_[free_slots_.back()].get();
}

Status Engine::submit(Endpoint& endpoint, Call& call) {
  settle_quick();
  if (!endpoint.failure.ok()) return endpoint.failure;
  if (!endpoint.condemned.ok()) return endpoint.condemned;
  Lane& lane = endpoint.lane(call.call_class());
  call.signature.sequence = lane.next_sequence;
  Ticket& ticket = *call.ticket;
  if (endpoint.idle() && quick_.begin(endpoint, call)) {
    ++lane.next_sequence;
    ++core_.counters.calls;
    ticket.done = false;
    endpoint.quick = true;
    if (quick_.take_early()) {
      advance_quick();
    } else {
      make_run_of_quick();
    }
    return {};
  }
  ISTHMUS_ASSIGN(Run * run, take_run());
  if (Status prepared = run->prepare(endpoint, call, free_slots_.back()); !prepared.ok()) {
    run->clear();
    return prepared;
  }
  free_slots_.pop_back();
  ++lane.next_sequence;
  ++live_runs_;
  ++core_.counters.calls;
  ticket.done = false;
  lane.waiting.push(run);
  if (lane.active == nullptr) start_next(lane);
  if (endpoint.observer != nullptr) endpoint.observer->on_submitted();
  return {};
}

void Engine::advance_quick() {
  const Quick::Outcome outcome = quick_.advance();
  if (outcome == Quick::Outcome::done) return finish_quick();
  if (outcome == Quick::Outcome::stuck) make_run_of_quick();
}

void Engine::hurry() {
  constexpr int kGlances = 64;  // the other threads of the process wait meanwhile
  for (int glances = 0; glances < kGlances && quick_.active(); ++glances) {
    if (quick_.glance()) {
      if (quick_.active()) advance_quick();
    } else {
      relax();
    }
  }
}

void Engine::finish_quick() {
  Endpoint& endpoint = *quick_.endpoint();
  const Call& call = quick_.call();
  endpoint.record({.number = call.signature.sequence, .key = quick_.key(), .signature = call.signature, .how = call.how});
  core_.recorder.end(core_.recorder.add(Moment::call, endpoint.communicator, endpoint.rank, call.signature, call.how, call.signature.root),
                     core_.now, Code::ok);
  call.ticket->status = Status();
  call.ticket->done = true;
  endpoint.quick = false;
  quick_.end();
  if (endpoint.observer != nullptr) endpoint.observer->on_submitted();
  if (!endpoint.condemned.ok()) fail(endpoint, endpoint.condemned);
}

void Engine::make_run_of_quick() {
  Endpoint& endpoint = *quick_.endpoint();
  Ticket& ticket = *quick_.call().ticket;
  endpoint.quick = false;
  auto run = take_run();
  if (!run.ok()) {
    quick_.end();
    ticket.status = run.status();
    ticket.done = true;
    return fail(endpoint, run.status());
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  ++live_runs_;
  endpoint.lane(wire::CallClass::collective).active = *run;
  (*run)->resume(endpoint, quick_, slot);
  quick_.end();
  if ((*run)->running()) adopt_early(**run);
  if (endpoint.observer != nullptr) endpoint.observer->on_submitted();
}

void Engine::start_next(Lane& lane) {
  if (lane.active != nullptr || lane.waiting.empty()) return;
  lane.active = lane.waiting.pop();
  lane.active->start();
  adopt_early(*lane.active);
}

void Engine::adopt_early(Run& run) {
  if (run.endpoint().early_frames == 0) return;
  for (Flow& flow : run.endpoint().flows) {
    if (flow.early.empty()) continue;
    for (size_t i = 0; i < flow.early.size() && run.running();) {
      if (!run.wants(flow.early[i].header)) {
        ++i;
        continue;
      }
      run.adopt(run.endpoint().take_early(flow, i));
    }
  }
}

// A call is over, so what waits for it, or an earlier one, came from a rank that made another call. (A call may need nothing of others,
// and be over before it looks at what came early.)
void Engine::drop_early(Endpoint& endpoint, uint32_t sequence) {
  for (int32_t rank = 0; rank < endpoint.ranks && endpoint.early_frames > 0; ++rank) {
    Flow& flow = endpoint.flows[static_cast<size_t>(rank)];
    for (size_t i = 0; i < flow.early.size();) {
      const FrameHeader& header = flow.early[i].header;
      if (header.call_class != wire::CallClass::collective || static_cast<int32_t>(header.sequence - sequence) > 0) {
        ++i;
        continue;
      }
      refuse_late(endpoint, header);
      if (flow.early[i].arrived < wire::payload_bytes(header)) {
        ++i;  // the rest still lands there: a later call drops it
      } else {
        (void)endpoint.take_early(flow, i);
      }
    }
  }
}

// A frame of a collective that is over. Grants and wants may cross its end; a message means that the ranks made different calls.
void Engine::refuse_late(Endpoint& endpoint, const FrameHeader& header) {
  if (header.type != FrameType::data && header.type != FrameType::offer) return;
  if (endpoint.observer != nullptr) endpoint.observer->on_suspect(header.source, header.call_class, header.sequence);
  ++core_.counters.stray_frames;
}

void Engine::fail(Endpoint& endpoint, const Status& why) {
  if (endpoint.quick) make_run_of_quick();
  if (!endpoint.failure.ok()) return;
  endpoint.failure = why;
  core_.recorder.add({.communicator = endpoint.communicator,
                      .rank = endpoint.rank,
                      .peer = why.origin_rank(),
                      .moment = Moment::failed,
                      .code = why.code()});
  if (!endpoint.idle()) explain(endpoint, why);
  for (Lane& lane : endpoint.lanes) {
    if (lane.active != nullptr) lane.active->fail(why);
    while (!lane.waiting.empty()) lane.waiting.pop()->reject(why);
  }
  for (transport::Transport* transport : transports_) transport->abandon(endpoint.communicator, endpoint.rank);
  if (endpoint.observer != nullptr) endpoint.observer->on_failed(why);
}

void Engine::condemn(Endpoint& endpoint, int32_t dead, const Status& why) {
  if (endpoint.quick) make_run_of_quick();
  if (endpoint.condemned.ok()) endpoint.condemned = why;
  for (const Lane& lane : endpoint.lanes) {
    const bool runs = lane.active != nullptr && lane.active->running();
    if (runs && endpoint.flows[static_cast<size_t>(dead)].lost && lane.active->involves(dead)) return fail(endpoint, why);
  }
  if (endpoint.idle()) fail(endpoint, endpoint.condemned);
}

bool Engine::poll(TimeNs now) {
  core_.now = now;
  if (core_.trace != nullptr) [[unlikely]]
    enter_trace();
  bool moved = false;
  for (transport::Transport* transport : transports_) moved |= transport->poll(now);
  if (quick_.active()) {
    if (moved) advance_quick();
    if (quick_.active() && quick_.age_ns(now) > Quick::kPatienceNs) make_run_of_quick();
  }
  moved |= do_work();
  moved |= retire_finished();
  if (now - last_watch_ns_ >= kWatchPeriodNs) {
    last_watch_ns_ = now;
    core_.recorder.stamp(now);
    if (live_runs_ > 0) watch();
  }
  if (core_.trace != nullptr) [[unlikely]]
    core_.trace->leave_poll();
  return moved;
}

bool Engine::do_work() {
  if (core_.turns.empty()) return false;
  for (uint64_t done = 0; done < core_.limits.poll_bytes && !core_.turns.empty(); done += core_.limits.piece_bytes) {
    const Turn turn = core_.turns.pop();
    if (turn.run->generation() == turn.generation && turn.run->work()) core_.turns.push(turn);
  }
  return true;
}

bool Engine::retire_finished() {
  const bool any = !core_.finished.empty();
  while (!core_.finished.empty()) {
    Run* run = core_.finished.pop();
    Endpoint& endpoint = run->endpoint();
    Ticket* ticket = run->ticket();
    Lane& lane = endpoint.lane(run->call_class());
    const Status status = run->status();
    if (!status.ok() && endpoint.failure.ok()) explain(endpoint, status);
    if (endpoint.timed && status.ok() && endpoint.observer != nullptr)
      endpoint.observer->on_ended(*run, core_.exact_now() - run->timed_from_ns());
    if (lane.active == run) lane.active = nullptr;
    if (run->call_class() == wire::CallClass::collective) drop_early(endpoint, run->signature().sequence);
    core_.recorder.end(run->record_number(), core_.now, status.code());
    if (core_.trace != nullptr) [[unlikely]]
      run->trace_call();
    run->clear();
    free_slots_.push_back(run->slot());
    --live_runs_;
    if (!status.ok()) {
      ++core_.counters.failed_calls;
      fail(endpoint, status);
    }
    ticket->status = status;
    ticket->done = true;
    start_next(lane);
    if (!endpoint.condemned.ok() && endpoint.idle()) fail(endpoint, endpoint.condemned);
  }
  return any;
}

Endpoint* Engine::find(uint64_t communicator, int32_t rank) {
  if (last_found_ != nullptr && last_found_->communicator == communicator && last_found_->rank == rank) return last_found_;
  for (const auto& endpoint : endpoints_) {
    if (endpoint->communicator == communicator && endpoint->rank == rank) return last_found_ = endpoint.get();
  }
  return nullptr;
}

// The endpoint that a frame is for, if its sender may speak for the rank that it names.
Endpoint* Engine::trusted(transport::PeerId from, const FrameHeader& header) {
  Endpoint* endpoint = find(header.communicator, header.destination);
  if (endpoint == nullptr || header.source >= endpoint->ranks) return nullptr;
  return endpoint->flows[static_cast<size_t>(header.source)].peer == from ? endpoint : nullptr;
}

Run* Engine::run_of(Endpoint& endpoint, const FrameHeader& header) {
  Run* run = endpoint.lane(header.call_class).active;
  return run != nullptr && run->running() && run->wants(header) ? run : nullptr;
}

bool Engine::on_whole(transport::PeerId from, const FrameHeader& header, std::span<const std::byte> payload) {
  if (quick_.awaits(from, header)) {
    quick_.take_awaited(header, payload);
  } else if (!quick_.concerns(from, header) || !quick_.take(header, payload)) {
    return false;
  }
  ++core_.counters.frames_received;
  return true;
}

std::span<std::byte> Engine::on_frame(transport::PeerId from, const FrameHeader& header) {
  ++core_.counters.frames_received;
  Endpoint* endpoint = trusted(from, header);
  if (endpoint == nullptr) return keep_orphan(from, header);
  if (!endpoint->failure.ok()) return {};
  const bool about_flow =
      header.type == FrameType::credit || (header.type == FrameType::grant && header.call_class == wire::CallClass::send_recv);
  if (about_flow) {
    on_flow_control(*endpoint, header);
    return {};
  }
  if (quick_.concerns(*endpoint, header)) {
    if (const std::span<std::byte> landing = quick_.on_frame(header); !landing.empty()) return landing;
    make_run_of_quick();
  }
  Run* run = run_of(*endpoint, header);
  if (run == nullptr) return keep_early(*endpoint, header);
  if (header.type == FrameType::data || header.type == FrameType::offer) return run->on_frame(header);
  run->on_control(header);
  return {};
}

// Credit and user grants belong to the pair, not to a call.
void Engine::on_flow_control(Endpoint& endpoint, const FrameHeader& header) {
  Flow& flow = endpoint.flows[static_cast<size_t>(header.source)];
  if (header.type == FrameType::credit) {
    flow.credit_bytes = std::min(core_.limits.eager_bytes, flow.credit_bytes + header.length);
  } else if (static_cast<int32_t>(header.sequence - flow.granted_user_sends) > 0) {
    flow.granted_user_sends = header.sequence;
  }
  for (Lane& lane : endpoint.lanes) {
    if (lane.active != nullptr && lane.active->running()) lane.active->on_room(header.source);
  }
}

// A frame of a call that has not begun here waits in memory that the sender's credit paid for.
std::span<std::byte> Engine::keep_early(Endpoint& endpoint, const FrameHeader& header) {
  Flow& flow = endpoint.flows[static_cast<size_t>(header.source)];
  const Lane& lane = endpoint.lane(header.call_class);
  const bool over = header.call_class == wire::CallClass::collective && static_cast<int32_t>(header.sequence - lane.next_sequence) < 0 &&
                    (lane.active == nullptr || static_cast<int32_t>(header.sequence - lane.active->signature().sequence) < 0);
  if (over) {
    refuse_late(endpoint, header);
    return {};
  }
  const bool eager = (header.flags & wire::kEager) != 0;
  Early early{.header = header, .payload = {}, .arrived = 0};
  if (header.type == FrameType::data && (!eager || flow.early_bytes + early.cost() > core_.limits.eager_bytes)) {
    fail(endpoint, remote_error(fmt::format("rank {} sent {} bytes without room for them", header.source, header.length), header.source));
    return {};
  }
  auto block = core_.pool.lend(wire::payload_bytes(header));
  if (!block.ok()) {
    fail(endpoint, block.status());
    return {};
  }
  early.payload = std::move(*block);
  return endpoint.keep_early(flow, std::move(early)).payload.span();
}

std::span<std::byte> Engine::keep_orphan(transport::PeerId from, const FrameHeader& header) {
  const bool unwanted =
      closed_.contains({header.communicator, header.destination}) || find(header.communicator, header.destination) != nullptr;
  auto block = core_.pool.lend(unwanted ? 0 : std::min(wire::payload_bytes(header), core_.limits.eager_bytes));
  if (unwanted || orphans_.size() >= kMaxOrphans || wire::payload_bytes(header) > core_.limits.eager_bytes || !block.ok()) {
    ++core_.counters.stray_frames;
    return {};
  }
  orphans_.push_back({.from = from, .early = {.header = header, .payload = std::move(*block), .arrived = 0}});
  return orphans_.back().early.payload.span();
}

void Engine::on_landed(transport::PeerId from, const FrameHeader& header, uint64_t, uint64_t bytes) {
  Endpoint* endpoint = trusted(from, header);
  if (endpoint == nullptr) {
    const auto orphan = std::find_if(orphans_.rbegin(), orphans_.rend(),
                                     [&](const Orphan& kept) { return kept.from == from && kept.early.is_landing(header); });
    if (orphan != orphans_.rend()) orphan->early.arrived += bytes;
    return;
  }
  if (quick_.concerns(*endpoint, header)) return quick_.on_landed(header, bytes);
  if (Run* run = run_of(*endpoint, header); run != nullptr) return run->on_landed(header, bytes);
  auto& kept = endpoint->flows[static_cast<size_t>(header.source)].early;
  const auto early = std::find_if(kept.rbegin(), kept.rend(), [&](const Early& one) { return one.is_landing(header); });
  if (early != kept.rend()) early->arrived += bytes;
}

void Engine::on_bytes(transport::PeerId from, const FrameHeader& header, uint64_t, std::span<const std::byte> bytes) {
  Endpoint* endpoint = trusted(from, header);
  if (endpoint == nullptr) return;
  if (Run* run = run_of(*endpoint, header); run != nullptr) run->on_bytes(header, bytes);
}

void Engine::on_sent(transport::SendToken token) {
  const uint64_t slot = (token >> 48) - 1;
  const auto generation = static_cast<uint16_t>(token >> 32);
  if (slot >= runs_.size() || runs_[slot]->generation() != generation || !runs_[slot]->running()) return;
  runs_[slot]->on_sent(static_cast<uint32_t>(token));
}

void Engine::on_peer_failed(transport::PeerId peer, const Status& why) {
  settle_quick();
  for (const auto& endpoint : endpoints_) {
    for (int32_t rank = 0; rank < endpoint->ranks; ++rank) {
      if (rank == endpoint->rank || endpoint->flows[static_cast<size_t>(rank)].peer != peer) continue;
      endpoint->flows[static_cast<size_t>(rank)].lost = true;
      for (Lane& lane : endpoint->lanes) {
        if (lane.active != nullptr && lane.active->running() && lane.active->involves(rank)) {
          lane.active->note(Moment::lost, rank);
          if (!endpoint->condemned.ok()) {
            fail(*endpoint, endpoint->condemned);
          } else if (why.code() == Code::system_error) {  // refused here: nobody has died, and the others shall hear the reason
            fail(*endpoint, why);
          } else {
            lane.active->bereave(Status(why.code(), why.text(), rank));
          }
        }
      }
    }
  }
}

}  // namespace isthmus::exec
