// SPDX-License-Identifier: Apache-2.0
// The step machine: which step may run, what an arriving message does, when a call is over. Called by the engine; failures end
// the run.
#include "exec/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/send_recv.h"

namespace isthmus::exec {

using plan::StepKind;
using wire::FrameHeader;
using wire::FrameType;

namespace {
constexpr uint32_t kDone = UINT32_MAX;
}

void Run::take_over(Endpoint& endpoint, const Call& call, uint32_t slot) {
  endpoint_ = &endpoint;
  program_ = call.program;
  signature_ = call.signature;
  how_ = call.how;
  class_ = call.call_class();
  ticket_ = call.ticket;
  caller_ = call.caller;
  slot_ = slot;
  status_ = Status();
  running_ = false;
  stamped_ = heard_ = asked_ = false;
  stalled_at_ns_ = kNever;
  warned_after_ns_ = 0;
  bereaved_ = Status();
  bereaved_since_ns_ = 0;
  suspect_since_ns_ = 0;
  key_ = signature_.key(call.kind_key != 0 ? call.kind_key : signature_.kind_key(endpoint.communicator, call.plan_tag));
  peers_.assign(program_->peers.size(), PeerState{});
}

Status Run::prepare(Endpoint& endpoint, const Call& call, uint32_t slot) {
  take_over(endpoint, call, slot);
  if (is_send_recv()) {
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      Flow& flow = endpoint.flows[static_cast<size_t>(program_->peers[peer].rank)];
      peers_[peer].send_base = flow.next_send;
      peers_[peer].recv_base = flow.next_recv;
      flow.next_send += program_->peers[peer].sends;
      flow.next_recv += program_->peers[peer].recvs;
    }
  }
  ISTHMUS_TRY(bind(call));
  record(call);
  return {};
}

void Run::record(const Call& call) {
  if (!is_send_recv()) {
    return endpoint_->record({.call_class = class_, .number = signature_.sequence, .key = key_, .signature = signature_, .how = call.how});
  }
  for (uint32_t index = 0; index < program_->plan.steps.size(); ++index) {
    const plan::Step& step = program_->plan.steps[index];
    if (!step.is_message()) continue;
    const PeerState& state = peers_[program_->peer_of_step[index]];
    const bool is_send = step.kind == StepKind::send;
    endpoint_->record({.call_class = class_,
                       .peer = step.peer,
                       .is_send = is_send,
                       .number = (is_send ? state.send_base : state.recv_base) + step.ordinal,
                       .key = key_of(index),
                       .signature = call.user_signatures[(is_send ? step.src_region : step.dst_region) - plan::kFirstUser]});
  }
}

// Two ranks have made different calls. Who made which is for the observer to find out; until then the call stands still.
void Run::suspect(const FrameHeader& header) {
  if (suspect_since_ns_ != 0) return;
  suspect_since_ns_ = std::max<TimeNs>(1, core_.now);
  suspect_rank_ = header.source;
  note(Moment::mismatched, header.source);
  if (endpoint_->observer != nullptr) endpoint_->observer->on_suspect(header.source, header.call_class, header.sequence);
}

Status Run::suspicion() const {
  return invalid_usage(
      fmt::format("mismatch: rank {} made another call than {} of rank {}", suspect_rank_, signature_.to_text(), endpoint_->rank),
      suspect_rank_);
}

void Run::start() {
  reset_steps();
  ready_ = program_->first_ready;
  go();
}

void Run::go() {
  drain();
  for (uint32_t peer = 0; peer < peers_.size() && running_; ++peer) advance_landable(peer);
}

void Run::reset_steps() {
  running_ = true;
  record_number_ = note(Moment::call, signature_.root);
  if (core_.trace != nullptr) [[unlikely]]
    trace_start();
  started_ns_ = last_traffic_ns_ = core_.now;
  if (endpoint_->timed) timed_from_ns_ = core_.exact_now();
  remaining_ = static_cast<uint32_t>(program_->plan.steps.size());
  pending_.assign(program_->pending.begin(), program_->pending.end());
  ready_.clear();
  if (inbound_.size() < program_->recv_steps.size()) inbound_.resize(program_->recv_steps.size());
  for (size_t i = 0; i < program_->recv_steps.size(); ++i) {
    inbound_[i].phase = Phase::absent;
    inbound_[i].stage_offer = false;
    inbound_[i].arrived = inbound_[i].eager_bytes = 0;
    inbound_[i].bytes_per_ns = 0;
    inbound_[i].carried = 0;
  }
  blocked_next_.resize(program_->plan.steps.size());
  offers_.resize(program_->send_steps.size());

  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    const Flow& flow = endpoint_->flows[static_cast<size_t>(program_->peers[peer].rank)];
    if (flow.peer_offers) continue;
    for (uint32_t i = 0; i < program_->peers[peer].recvs; ++i) {
      const plan::Step& step = program_->plan.steps[program_->recv_steps[program_->peers[peer].recvs_begin + i]];
      peers_[peer].announces |= bytes_of(step.dst()) > core_.limits.eager_bytes / 8;
    }
  }
}

void Run::fail(const Status& why) {
  if (!running_) return;
  status_ = why;
  running_ = false;
  core_.finished.push(this);
}

void Run::reject(const Status& why) {
  status_ = why;
  core_.finished.push(this);
}

void Run::finish() {
  if (buffers_.reports()) buffers_.report(sent_bytes());
  running_ = false;
  core_.finished.push(this);
}

void Run::clear() {
  for (Inbound& message : inbound_) message.stage.reset();
  buffers_.release();
  buffers_.forget();
  work_.clear();
  has_turn_ = false;
  program_.reset();
  endpoint_ = nullptr;
  ticket_ = nullptr;
  ++generation_;
}

void Run::drain() {
  if (draining_) return;
  draining_ = true;
  for (size_t next = 0; next < ready_.size() && running_; ++next) dispatch(ready_[next]);
  ready_.clear();
  draining_ = false;
  if (remaining_ == 0 && running_) finish();
}

void Run::dispatch(uint32_t index) {
  if (core_.trace != nullptr) [[unlikely]]
    trace_begin(index);
  const plan::Step& step = program_->plan.steps[index];
  switch (step.kind) {
    case StepKind::send:
      return send(index);
    case StepKind::recv:
    case StepKind::recv_reduce:
      return receivable(index);
    case StepKind::copy:
    case StepKind::reduce:
    case StepKind::map: {
      const uint64_t bytes = bytes_of(step.dst());
      if (bytes > core_.limits.inline_bytes) return push_work(index);
      buffers_.local_piece(step, 0, bytes);
      return complete(index);
    }
    case StepKind::measure:
    case StepKind::encode:
    case StepKind::accumulate:
    case StepKind::decode:
      return bytes_of(step.dst()) == 0 ? complete(index) : push_work(index);
    default:
      return fail(internal_error(fmt::format("{}: step {} has kind {}, which this executor does not carry out", program_->plan.name, index,
                                             plan::name_of(step.kind))));
  }
}

// The step's destination is free: take what has come, or tell the peer that there is room.
void Run::receivable(uint32_t index) {
  const plan::Step& step = program_->plan.steps[index];
  Inbound& message = inbound_[program_->inbound[index]];
  const uint64_t bytes = bytes_of(step.dst());
  if (bytes == 0 && !is_send_recv()) return complete(index);
  advance_landable(program_->peer_of_step[index]);
  const bool offered = message.phase == Phase::offered && message.arrived == wire::RemoteSpan::kBytes && !message.stage;
  const bool staged = message.phase == Phase::staged && message.arrived == bytes;
  if (!offered && !staged) return;
  if (staged && bytes <= core_.limits.inline_bytes) {
    if (bytes > 0) buffers_.message_piece(step, 0, message.stage.data(), bytes);
    return consumed(index, message);
  }
  push_work(index);
}

void Run::complete(uint32_t index) {
  if (core_.trace != nullptr) [[unlikely]]
    trace_end(index);
  pending_[index] = kDone;
  --remaining_;
  for (const uint32_t next : program_->plan.successors_of(index)) {
    if (--pending_[next] == 0) ready_.push_back(next);
  }
  if (const uint32_t next = program_->slot_next[index]; next != plan::kNoStep) advance_landable(program_->peer_of_step[next]);
  if (!running_) return;
  if (!ready_.empty()) drain();
  if (remaining_ == 0 && running_ && !draining_) finish();
}

// The message of a receiving step has been used up: return credit, release an offer, free its memory.
void Run::consumed(uint32_t index, Inbound& message) {
  const plan::Step& step = program_->plan.steps[index];
  Flow& flow = endpoint_->flows[static_cast<size_t>(step.peer)];
  if (message.phase == Phase::offered || message.stage_offer) {
    send_done(index, message);
    flow.peer_offers = true;
  }
  if (message.eager_bytes > 0) {
    // If the peer is gone, its transport says so; it may have done its part.
    (void)return_credit(core_, *endpoint_, step.peer, class_, message.eager_bytes);
  }
  message.phase = Phase::consumed;
  message.stage_offer = false;
  message.stage.reset();
  complete(index);
}

bool Run::wants(const FrameHeader& header) const {
  if (header.call_class != class_) return false;
  if (!is_send_recv()) return header.sequence == signature_.sequence;
  const uint32_t peer = program_->peer_index(header.source);
  if (peer == UINT32_MAX) return false;
  const bool about_my_send = header.type == FrameType::done || header.type == FrameType::seen;
  return ordinal_of(header, peer) < (about_my_send ? program_->peers[peer].sends : program_->peers[peer].recvs);
}

// The receiving step of an incoming message, or kNoStep if the call here expects no such message.
uint32_t Run::step_of(const FrameHeader& header) {
  const uint32_t peer = program_->peer_index(header.source);
  const uint32_t ordinal = peer == UINT32_MAX ? 0 : ordinal_of(header, peer);
  if (peer == UINT32_MAX || ordinal >= program_->peers[peer].recvs) {
    suspect(header);
    return plan::kNoStep;
  }
  return program_->recv_steps[program_->peers[peer].recvs_begin + ordinal];
}

std::span<std::byte> Run::on_frame(const FrameHeader& header) {
  heard(header.source);
  const uint32_t index = step_of(header);
  if (index == plan::kNoStep) return {};
  if (header.key != key_of(index)) {
    suspect(header);
    return {};
  }
  Inbound& message = inbound_[program_->inbound[index]];
  const uint64_t expected = header.type == FrameType::offer ? wire::RemoteSpan::kBytes : bytes_of(program_->plan.steps[index].dst());
  if (message.phase != Phase::absent || header.length != expected) {
    fail(remote_error(fmt::format("rank {} sent message #{} of {} with {} bytes where {} were expected{}", header.source, header.ordinal,
                                  signature_.to_text(), header.length, expected, message.phase != Phase::absent ? ", twice" : ""),
                      header.source));
    return {};
  }
  return begin_message(index, message, header);
}

std::span<std::byte> Run::begin_message(uint32_t index, Inbound& message, const FrameHeader& header) {
  const plan::Step& step = program_->plan.steps[index];
  if (header.type == FrameType::offer) {
    message.phase = Phase::offered;
    message.stage_offer = (header.flags & wire::kStage) != 0;
    return message.remote;
  }
  if ((header.flags & wire::kEager) != 0) message.eager_bytes = header.length + FrameHeader::kBytes;
  endpoint_->flows[static_cast<size_t>(step.peer)].traffic.received_bytes += header.length;
  if (header.length == 0) {
    message.phase = Phase::staged;
    if (pending_[index] == 0) consumed(index, message);
    return {};
  }
  // Encodings are added in whole units, which transports cut anywhere.
  const bool by_units = step.kind == StepKind::recv_reduce && buffers_.atom_bytes(step) > message.carry.size();
  if (pending_[index] != 0 || by_units) return stage(message, header.length);
  message.phase = step.kind == StepKind::recv ? Phase::landing : Phase::applying;
  if (step.kind == StepKind::recv) return {at(step.dst()), header.length};
  return {};
}

// An offer that must be copied before its apply may run, because the sender's progress (and so this step's) depends on it.
void Run::take_copy(uint32_t index, Inbound& message) {
  if (stage(message, bytes_of(program_->plan.steps[index].dst())).empty()) return;
  message.phase = Phase::offered;
  push_work(index);
}

std::span<std::byte> Run::stage(Inbound& message, uint64_t bytes) {
  message.phase = Phase::staged;
  auto block = core_.pool.lend(bytes);
  if (!block.ok()) {
    fail(block.status());
    return {};
  }
  message.stage = std::move(*block);
  core_.counters.staged_bytes += bytes;
  return message.stage.span();
}

void Run::on_landed(const FrameHeader& header, uint64_t bytes) {
  const uint32_t index = step_of(header);
  if (index == plan::kNoStep) return;
  Inbound& message = inbound_[program_->inbound[index]];
  if (message.phase == Phase::absent || header.key != key_of(index)) return;
  message.arrived += bytes;
  last_traffic_ns_ = core_.now;
  if (message.arrived == header.length) arrived(index, message);
}

void Run::on_bytes(const FrameHeader& header, std::span<const std::byte> bytes) {
  const uint32_t index = step_of(header);
  if (index == plan::kNoStep) return;
  Inbound& message = inbound_[program_->inbound[index]];
  if (message.phase != Phase::applying) return;  // of a frame that was not accepted
  last_traffic_ns_ = core_.now;
  stream_piece(program_->plan.steps[index], message, bytes);
  if (message.arrived == header.length) arrived(index, message);
}

// All bytes of a frame are here.
void Run::arrived(uint32_t index, Inbound& message) {
  switch (message.phase) {
    case Phase::landing:
    case Phase::applying:
      return consumed(index, message);
    case Phase::staged:
      if (pending_[index] == 0) receivable(index);
      return;
    case Phase::offered:
      if (pending_[index] == 0) return receivable(index);
      if (message.stage_offer && program_->plan.steps[index].kind == StepKind::recv_reduce) take_copy(index, message);
      return;
    case Phase::absent:
    case Phase::consumed:
      return fail(internal_error(fmt::format("{}: bytes arrived for a message that is not under way", signature_.to_text())));
  }
}

// The step waits for something else: its message is here, or there will be none.
bool Run::has_arrived(uint32_t index) const {
  const plan::Step& step = program_->plan.steps[index];
  if (!is_send_recv() && bytes_of(step.receives() ? step.dst() : step.src()) == 0) return true;
  if (!step.receives()) return false;
  const Inbound& message = inbound_[program_->inbound[index]];
  return message.phase == Phase::staged && message.arrived == bytes_of(step.dst());
}

bool Run::involves(int32_t rank) const {
  const uint32_t peer = program_->peer_index(rank);
  if (peer == UINT32_MAX) return false;
  const Program::Peer& traffic = program_->peers[peer];
  const auto open = [&](uint32_t step) { return pending_[step] != kDone && !has_arrived(step); };
  const auto* sends = program_->send_steps.data() + traffic.sends_begin;
  const auto* recvs = program_->recv_steps.data() + traffic.recvs_begin;
  return std::any_of(sends, sends + traffic.sends, open) || std::any_of(recvs, recvs + traffic.recvs, open);
}

std::string Run::missing_ranks() const {
  std::string text;
  for (const Program::Peer& peer : program_->peers) {
    if (!involves(peer.rank)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", peer.rank);
    if (text.size() > 60) return text + ", ...";
  }
  return text;
}

}  // namespace isthmus::exec
