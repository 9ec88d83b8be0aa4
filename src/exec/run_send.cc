// SPDX-License-Identifier: Apache-2.0
// Sends and their flow control: a message is offered where the peer can read it in place; else pushed once the peer has granted
// its ordinal or while credit lasts; else it waits. Called by the step machine. A send that the transport refuses means that the peer is
// lost.
#include <algorithm>
#include <utility>

#include "exec/run.h"

namespace isthmus::exec {

using wire::FrameHeader;
using wire::FrameType;

namespace {
constexpr uint32_t kNone = UINT32_MAX;

transport::SendToken token_of(uint32_t slot, uint16_t generation, uint32_t step) {
  return (static_cast<uint64_t>(slot) + 1) << 48 | static_cast<uint64_t>(generation) << 32 | step;
}
}  // namespace

uint64_t Run::key_of(uint32_t index) const {
  if (!is_send_recv()) return key_;
  // Each message of a group is a call of its own: both sides must agree on its type and count.
  const plan::Step& step = program_->plan.steps[index];
  return user_keys_[step.kind == plan::StepKind::send ? step.src_region : step.dst_region];
}

// Messages of a collective are numbered within the call; user messages within the pair, whatever groups the two sides made.
FrameHeader Run::header_to(uint32_t peer, FrameType type, uint32_t ordinal) const {
  const bool about_my_send = type == FrameType::data || type == FrameType::offer || type == FrameType::want;
  const uint32_t base = about_my_send ? peers_[peer].send_base : peers_[peer].recv_base;
  return {.type = type,
          .call_class = class_,
          .communicator = endpoint_->communicator,
          .source = endpoint_->rank,
          .destination = program_->peers[peer].rank,
          .sequence = is_send_recv() ? base + ordinal : signature_.sequence,
          .ordinal = is_send_recv() ? 0 : ordinal,
          .length = 0,
          .key = key_};
}

uint32_t Run::ordinal_of(const FrameHeader& header, uint32_t peer) const {
  if (!is_send_recv()) return header.ordinal;
  const bool about_my_send = header.type == FrameType::done || header.type == FrameType::seen;
  return header.sequence - (about_my_send ? peers_[peer].send_base : peers_[peer].recv_base);
}

void Run::send(uint32_t index) {
  const plan::Step& step = program_->plan.steps[index];
  const uint64_t bytes = bytes_of(step.src());
  if (bytes == 0 && !is_send_recv()) return complete(index);
  const std::span<const std::byte> memory(at(step.src()), bytes);
  if (bytes >= core_.limits.offer_bytes && offer(index, memory)) return;
  if (push(index, memory)) return;
  if (running_) block(index, program_->peer_of_step[index]);
}

bool Run::offer(uint32_t index, std::span<const std::byte> memory) {
  const plan::Step& step = program_->plan.steps[index];
  const uint32_t peer = program_->peer_of_step[index];
  Flow& flow = endpoint_->flows[static_cast<size_t>(step.peer)];
  wire::RemoteSpan remote;
  if (!flow.transport->offer(flow.peer, memory, remote)) return false;
  auto& payload = offers_[program_->peers[peer].sends_begin + step.ordinal];
  wire::encode(remote, payload);
  FrameHeader header = header_to(peer, FrameType::offer, step.ordinal);
  header.length = payload.size();
  header.key = key_of(index);
  if ((step.flags & plan::kReadInPlace) == 0) header.flags = wire::kStage;
  flow.traffic.offered_bytes += memory.size();
  ++peers_[peer].offered;
  if (Status sent = flow.transport->send(flow.peer, header, payload, transport::kNoToken); !sent.ok()) bereave(sent);
  return true;
}

// True if the message left (or the run failed); false if it must wait for a grant.
bool Run::push(uint32_t index, std::span<const std::byte> memory) {
  const plan::Step& step = program_->plan.steps[index];
  const uint32_t peer = program_->peer_of_step[index];
  Flow& flow = endpoint_->flows[static_cast<size_t>(step.peer)];
  FrameHeader header = header_to(peer, FrameType::data, step.ordinal);
  header.length = memory.size();
  header.key = key_of(index);
  const bool granted =
      is_send_recv() ? static_cast<int32_t>(header.sequence - flow.granted_user_sends) < 0 : step.ordinal < peers_[peer].granted;
  if (!granted) {
    const uint64_t cost = memory.size() + FrameHeader::kBytes;
    if (cost > flow.credit_bytes) return false;
    flow.credit_bytes -= cost;
    header.flags = wire::kEager;
  }
  flow.traffic.sent_bytes += memory.size();
  if (Status sent = flow.transport->send(flow.peer, header, memory, token_of(slot_, generation_, index)); !sent.ok()) bereave(sent);
  return true;
}

void Run::block(uint32_t index, uint32_t peer) {
  PeerState& state = peers_[peer];
  append_blocked(state, index);
  if (state.want_sent && !is_send_recv()) return;  // the peer may receive user messages in several groups, so each asks for itself
  state.want_sent = true;
  ++core_.counters.wants;
  send_control(peer, FrameType::want, program_->plan.steps[index].ordinal);
}

// Oldest first: what the plan sends early somebody waits for early.
void Run::append_blocked(PeerState& state, uint32_t index) {
  blocked_next_[index] = kNone;
  (state.blocked == kNone ? state.blocked : blocked_next_[state.last_blocked]) = index;
  state.last_blocked = index;
}

void Run::retry_blocked(uint32_t peer) {
  uint32_t index = std::exchange(peers_[peer].blocked, kNone);
  while (index != kNone && running_) {
    const uint32_t next = blocked_next_[index];
    const plan::Step& step = program_->plan.steps[index];
    if (!push(index, {at(step.src()), bytes_of(step.src())})) append_blocked(peers_[peer], index);
    index = next;
  }
}

// Raises the limit up to which the peer's messages have room here, in ordinal order, and tells the peer if it cares.
void Run::advance_landable(uint32_t peer) {
  PeerState& state = peers_[peer];
  const Program::Peer& traffic = program_->peers[peer];
  while (state.landable < traffic.recvs) {
    const uint32_t index = program_->recv_steps[traffic.recvs_begin + state.landable];
    const plan::Step& step = program_->plan.steps[index];
    const bool reducing = step.kind == plan::StepKind::recv_reduce;
    const bool slot_free = reducing && (step.slot_after == plan::kNoStep || pending_[step.slot_after] == UINT32_MAX);
    const bool room = slot_free || pending_[index] == 0 || pending_[index] == UINT32_MAX;
    if (!room) break;
    ++state.landable;
  }
  if (!state.announces || state.landable == state.announced) return;
  state.announced = state.landable;
  ++core_.counters.grants;
  send_control(peer, FrameType::grant, state.landable);
}

// The sender of an offer may use its memory again; and hears whether reading it was slow.
void Run::send_done(uint32_t index, const Inbound& message) {
  const bool far = message.bytes_per_ns > 0 && message.bytes_per_ns < Distance::kFarBytesPerNs;
  send_control(program_->peer_of_step[index], FrameType::done, program_->plan.steps[index].ordinal, 0,
               far ? uint8_t{wire::kFar} : uint8_t{0});
}

void Run::send_control(uint32_t peer, FrameType type, uint32_t ordinal, uint64_t length, uint8_t flags) {
  const Flow& flow = endpoint_->flows[static_cast<size_t>(program_->peers[peer].rank)];
  FrameHeader header = header_to(peer, type, ordinal);
  header.length = length;
  header.flags = flags;
  if (Status sent = flow.transport->send(flow.peer, header, {}, transport::kNoToken); !sent.ok()) bereave(sent);
}

void Run::on_control(const FrameHeader& header) {
  last_traffic_ns_ = core_.now;
  const uint32_t peer = program_->peer_index(header.source);
  if (peer == kNone) return;
  PeerState& state = peers_[peer];
  switch (header.type) {
    case FrameType::grant:
      state.granted = std::max(state.granted, header.ordinal);
      return retry_blocked(peer);
    case FrameType::want:
      state.announces = true;
      return advance_landable(peer);
    case FrameType::done: {
      core_.distance.told((header.flags & wire::kFar) != 0, core_.now);
      const uint32_t ordinal = ordinal_of(header, peer);
      if (ordinal >= program_->peers[peer].sends) return;
      const uint32_t index = program_->send_steps[program_->peers[peer].sends_begin + ordinal];
      if (pending_[index] != 0) return;
      --state.offered;
      complete(index);
      return;
    }
    default:
      return;
  }
}

void Run::on_sent(uint32_t step) { complete(step); }

void Run::on_room(int32_t rank) {
  const uint32_t peer = program_->peer_index(rank);
  if (peer != kNone) retry_blocked(peer);
}

void Run::adopt(Early&& early) {
  if (wire::payload_bytes(early.header) == 0 && early.header.type != FrameType::data) return on_control(early.header);
  const uint32_t index = step_of(early.header);
  if (index == kNone) return;
  if (early.header.type == FrameType::data && early.header.length > 0) {
    // The payload already lies in lent memory: keep it there instead of copying.
    Inbound& message = inbound_[program_->inbound[index]];
    const bool fits = early.header.key == key_of(index) && message.phase == Phase::absent &&
                      early.header.length == bytes_of(program_->plan.steps[index].dst());
    if (fits) {
      heard(early.header.source);
      message.phase = Phase::staged;
      message.stage = std::move(early.payload);
      message.arrived = early.arrived;
      endpoint_->flows[static_cast<size_t>(early.header.source)].traffic.received_bytes += early.header.length;
      if ((early.header.flags & wire::kEager) != 0) message.eager_bytes = early.header.length + FrameHeader::kBytes;
      if (message.arrived == early.header.length) arrived(index, message);
      return;
    }
  }
  const std::span<std::byte> landing = on_frame(early.header);
  if (!running_ || landing.empty()) return;
  const uint64_t arrived = std::min<uint64_t>(early.arrived, landing.size());
  std::copy_n(early.payload.data(), arrived, landing.data());
  on_landed(early.header, arrived);
}

}  // namespace isthmus::exec
