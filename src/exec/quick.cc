// SPDX-License-Identifier: Apache-2.0
// The short way. See quick.h. What it does with messages, credit and history is what run.cc and run_send.cc do.
#include "exec/quick.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace isthmus::exec {

using plan::StepKind;
using wire::FrameHeader;
using wire::FrameType;

bool Quick::suits(const Endpoint& endpoint, const Call& call) const {
  if (call.signature.collective == Collective::sendrecv || call.caller == nullptr) return false;
  const uint64_t block_bytes = call.signature.count * size_of(call.signature.type);
  if (block_bytes > kMostBytes || block_bytes * static_cast<uint64_t>(endpoint.ranks) > kInboxBytes) return false;
  if (call.program->plan.steps.size() > kMostSteps || call.program->plan.codec != nullptr) return false;
  return std::all_of(call.program->peers.begin(), call.program->peers.end(), [&](const Program::Peer& peer) {
    return endpoint.flows[static_cast<size_t>(peer.rank)].transport->whole_bytes() >= kInboxBytes;
  });
}

bool Quick::begin(Endpoint& endpoint, const Call& call) {
  if (core_.trace != nullptr) return false;  // steps of runs are traced
  if (resembles(endpoint, call) && call.caller != nullptr) {
    call_.signature.sequence = call.signature.sequence;
    call_.in = call.in;
    call_.out = call.out;
    call_.scalar = call.scalar;
    call_.ticket = call.ticket;
    call_.caller = call.caller;
    if (!buffers_.bind(call_).ok()) return false;
    ++core_.counters.repeated_calls;
  } else {
    if (!suits(endpoint, call)) return false;
    prepare(endpoint, call);
    if (!buffers_.bind(call_).ok()) {
      buffers_.forget();  // nothing is like this call: its moves were not worked out
      return false;
    }
    work_out();
  }
  std::fill_n(messages_.begin(), program_->recv_steps.size(), Message{});
  used_bytes_ = 0;
  next_ = 0;
  begun_ns_ = 0;
  key_ = call_.signature.key(call_.kind_key);
  active_ = true;
  return true;
}

void Quick::prepare(Endpoint& endpoint, const Call& call) {
  buffers_.forget();
  call_ = call;
  if (call_.kind_key == 0) call_.kind_key = call.signature.kind_key(endpoint.communicator, call.plan_tag);
  program_ = call.program;
  endpoint_ = &endpoint;
}

void Quick::work_out() {
  moves_.clear();
  for (size_t index = 0; index < program_->plan.steps.size(); ++index) {
    const plan::Step& step = program_->plan.steps[index];
    Move move{.step = &step};
    if (step.is_message()) move.flow = &endpoint_->flows[static_cast<size_t>(step.peer)];
    if (step.receives()) move.inbound = program_->inbound[index];
    const bool sends = step.kind == StepKind::send;
    move.bytes = buffers_.bytes_of(sends ? step.src() : step.dst());
    if (sends || step.kind == StepKind::recv_reduce) move.src = buffers_.offset_of(step.src());
    if (!sends) move.dst = buffers_.offset_of(step.dst());
    moves_.push_back(move);
  }
}

bool Quick::take_early_frames() {
  for (Flow& flow : endpoint_->flows) {
    for (size_t i = 0; i < flow.early.size();) {
      const Early& early = flow.early[i];
      if (!concerns(*endpoint_, early.header)) {
        ++i;
        continue;
      }
      if (early.arrived != early.header.length || !take(early.header, {early.payload.data(), early.header.length})) return false;
      endpoint_->take_early(flow, i);
    }
  }
  return true;
}

bool Quick::glance() {
  if (next_ >= moves_.size() || moves_[next_].flow == nullptr) return true;  // what it waited for came between two polls
  const Flow& flow = *moves_[next_].flow;
  return flow.transport->glance(flow.peer);
}

Quick::Outcome Quick::advance() {
  for (; next_ < moves_.size(); ++next_) {
    const Move& move = moves_[next_];
    switch (move.step->kind) {
      case StepKind::send:
        if (!send(move)) return Outcome::stuck;
        break;
      case StepKind::recv:
      case StepKind::recv_reduce:
        if (!receive(move)) return Outcome::waits;
        break;
      case StepKind::copy:
      case StepKind::reduce:
      case StepKind::map:
        buffers_.local_piece(*move.step, 0, move.bytes);
        break;
      default:
        return Outcome::stuck;
    }
  }
  return Outcome::done;
}

bool Quick::send(const Move& move) {
  if (move.bytes == 0) return true;
  Flow& flow = *move.flow;
  const uint64_t cost = move.bytes + FrameHeader::kBytes;
  if (cost > flow.credit_bytes) return false;
  const FrameHeader header{.type = FrameType::data,
                           .flags = wire::kEager,
                           .call_class = wire::CallClass::collective,
                           .communicator = endpoint_->communicator,
                           .source = endpoint_->rank,
                           .destination = move.step->peer,
                           .sequence = call_.signature.sequence,
                           .ordinal = move.step->ordinal,
                           .length = move.bytes,
                           .key = key_};
  if (!flow.transport->try_send(flow.peer, header, {buffers_.base(move.step->src_region) + move.src, move.bytes})) return false;
  flow.credit_bytes -= cost;
  flow.traffic.sent_bytes += move.bytes;
  return true;
}

bool Quick::receive(const Move& move) {
  if (move.bytes == 0) return true;
  Message& message = messages_[move.inbound];
  if (message.data == nullptr || message.arrived < message.bytes) return false;
  apply(move, message.data, std::exchange(message.eager_bytes, 0));
  return true;
}

void Quick::apply(const Move& move, const std::byte* message, uint32_t eager_bytes) {
  std::byte* dst = buffers_.base(move.step->dst_region) + move.dst;
  if (move.step->kind == StepKind::recv) {
    buffers_.store(dst, message, move.bytes);
  } else {
    buffers_.reduce(*move.step, dst, buffers_.base(move.step->src_region) + move.src, message, move.bytes);
  }
  // If the peer is gone, its transport says so.
  if (eager_bytes > 0) (void)return_credit(core_, *endpoint_, move.step->peer, wire::CallClass::collective, eager_bytes);
}

void Quick::take_awaited(const FrameHeader& header, std::span<const std::byte> payload) {
  const Move& move = moves_[next_++];
  move.flow->traffic.received_bytes += move.bytes;
  const bool eager = (header.flags & wire::kEager) != 0;
  apply(move, payload.data(), eager ? static_cast<uint32_t>(move.bytes + FrameHeader::kBytes) : 0);
}

// The place of a message in Program::recv_steps; UINT32_MAX if it is not what the call expects.
uint32_t Quick::inbound_of(const FrameHeader& header) const {
  const uint32_t peer = program_->peer_index(header.source);
  if (peer == UINT32_MAX || header.type != FrameType::data || header.key != key_) return UINT32_MAX;
  if (header.ordinal >= program_->peers[peer].recvs) return UINT32_MAX;
  const uint32_t inbound = program_->peers[peer].recvs_begin + header.ordinal;
  const uint32_t step = program_->recv_steps[inbound];
  const bool expected = step >= next_ && messages_[inbound].data == nullptr && header.length > 0 && header.length == moves_[step].bytes;
  return expected ? inbound : UINT32_MAX;
}

bool Quick::take(const FrameHeader& header, std::span<const std::byte> payload) {
  const std::span<std::byte> landing = on_frame(header);
  if (landing.empty()) return false;
  std::memcpy(landing.data(), payload.data(), payload.size());
  on_landed(header, payload.size());
  return true;
}

std::span<std::byte> Quick::on_frame(const FrameHeader& header) {
  const uint32_t inbound = inbound_of(header);
  if (inbound == UINT32_MAX || header.length > inbox_.size() - used_bytes_) return {};
  endpoint_->flows[static_cast<size_t>(header.source)].traffic.received_bytes += header.length;
  std::byte* landing = inbox_.data() + used_bytes_;
  used_bytes_ += (header.length + 63) / 64 * 64;
  used_bytes_ = std::min(used_bytes_, inbox_.size());
  const bool eager = (header.flags & wire::kEager) != 0;
  messages_[inbound] = {.data = landing,
                        .bytes = static_cast<uint32_t>(header.length),
                        .eager_bytes = eager ? static_cast<uint32_t>(header.length + FrameHeader::kBytes) : 0};
  return {landing, header.length};
}

void Quick::on_landed(const FrameHeader& header, uint64_t bytes) {
  const uint32_t peer = program_->peer_index(header.source);
  messages_[program_->peers[peer].recvs_begin + header.ordinal].arrived += static_cast<uint32_t>(bytes);
}

}  // namespace isthmus::exec
