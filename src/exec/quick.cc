// SPDX-License-Identifier: Apache-2.0
// The short way. See quick.h. What it does with messages, credit and history is what run.cc and run_send.cc do.
#include "exec/quick.h"

#include <algorithm>
#include <utility>

namespace isthmus::exec {

using plan::StepKind;
using wire::FrameHeader;
using wire::FrameType;

bool Quick::suits(const Endpoint& endpoint, const Call& call) {
  if (call.signature.collective == Collective::sendrecv || call.caller == nullptr) return false;
  const uint64_t block_bytes = call.signature.count * size_of(call.signature.type);
  return block_bytes <= kMostBytes && block_bytes * static_cast<uint64_t>(endpoint.ranks) <= kInboxBytes &&
         call.program->plan.steps.size() <= kMostSteps;
}

bool Quick::begin(Endpoint& endpoint, Call& call) {
  if (core_.trace != nullptr) return false;  // steps of runs are traced
  for (const Program::Peer& peer : call.program->peers) {
    if (endpoint.flows[static_cast<size_t>(peer.rank)].transport->whole_bytes() < kInboxBytes) return false;
  }
  if (program_ != call.program) {
    buffers_.forget();
    program_ = call.program;
  }
  if (!buffers_.bind(call).ok()) return false;
  std::fill_n(messages_.begin(), program_->recv_steps.size(), Message{});
  used_bytes_ = 0;
  next_ = 0;
  begun_ns_ = 0;
  key_ = call.signature.key(call.kind_key != 0 ? call.kind_key : call.signature.kind_key(endpoint.communicator, call.plan_tag));
  call_ = std::move(call);
  endpoint_ = &endpoint;
  return true;
}

bool Quick::take_early() {
  for (Flow& flow : endpoint_->flows) {
    for (size_t i = 0; i < flow.early.size();) {
      const Early& early = flow.early[i];
      if (!concerns(*endpoint_, early.header)) {
        ++i;
        continue;
      }
      if (early.arrived < wire::payload_bytes(early.header)) return false;
      const std::span<std::byte> landing = on_frame(early.header);
      if (landing.empty()) return false;
      std::copy_n(early.payload.data(), early.header.length, landing.data());
      on_landed(early.header, early.header.length);
      if ((early.header.flags & wire::kEager) != 0) flow.early_bytes -= early.header.length + FrameHeader::kBytes;
      flow.early.erase(flow.early.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return true;
}

void Quick::end() {
  endpoint_ = nullptr;
  buffers_.release();
  call_.ticket = nullptr;
}

Quick::Outcome Quick::advance() {
  const auto& steps = program_->plan.steps;
  for (; next_ < steps.size(); ++next_) {
    const plan::Step& step = steps[next_];
    switch (step.kind) {
      case StepKind::send:
        if (!send(step)) return Outcome::stuck;
        break;
      case StepKind::recv:
      case StepKind::recv_reduce:
        if (!receive(step, program_->inbound[next_])) return Outcome::waits;
        break;
      case StepKind::copy:
      case StepKind::reduce:
      case StepKind::map:
        buffers_.local_piece(step, 0, buffers_.bytes_of(step.dst()));
        break;
      default:
        return Outcome::stuck;
    }
  }
  return Outcome::done;
}

bool Quick::send(const plan::Step& step) {
  const uint64_t bytes = buffers_.bytes_of(step.src());
  if (bytes == 0) return true;
  Flow& flow = endpoint_->flows[static_cast<size_t>(step.peer)];
  const uint64_t cost = bytes + FrameHeader::kBytes;
  if (cost > flow.credit_bytes) return false;
  const FrameHeader header{.type = FrameType::data,
                           .flags = wire::kEager,
                           .call_class = wire::CallClass::collective,
                           .communicator = endpoint_->communicator,
                           .source = endpoint_->rank,
                           .destination = step.peer,
                           .sequence = call_.signature.sequence,
                           .ordinal = step.ordinal,
                           .length = bytes,
                           .key = key_};
  if (!flow.transport->try_send(flow.peer, header, {buffers_.at(step.src()), bytes})) return false;
  flow.credit_bytes -= cost;
  flow.traffic.sent_bytes += bytes;
  return true;
}

bool Quick::receive(const plan::Step& step, uint32_t inbound) {
  const uint64_t bytes = buffers_.bytes_of(step.dst());
  if (bytes == 0) return true;
  Message& message = messages_[inbound];
  if (message.data == nullptr || message.arrived < message.bytes) return false;
  buffers_.message_piece(step, 0, message.data, bytes);
  // If the peer is gone, its transport says so.
  (void)return_credit(core_, *endpoint_, step.peer, wire::CallClass::collective, std::exchange(message.eager_bytes, 0));
  return true;
}

std::span<std::byte> Quick::on_frame(const FrameHeader& header) {
  const uint32_t peer = program_->peer_index(header.source);
  if (peer == UINT32_MAX || header.type != FrameType::data || header.key != key_) return {};
  if (header.ordinal >= program_->peers[peer].recvs) return {};
  const uint32_t inbound = program_->peers[peer].recvs_begin + header.ordinal;
  Message& message = messages_[inbound];
  const bool expected =
      message.data == nullptr && header.length == buffers_.bytes_of(program_->plan.steps[program_->recv_steps[inbound]].dst());
  if (!expected || header.length == 0 || header.length > inbox_.size() - used_bytes_) return {};
  endpoint_->flows[static_cast<size_t>(header.source)].traffic.received_bytes += header.length;
  std::byte* landing = inbox_.data() + used_bytes_;
  used_bytes_ += (header.length + 63) / 64 * 64;
  used_bytes_ = std::min(used_bytes_, inbox_.size());
  const bool eager = (header.flags & wire::kEager) != 0;
  message = {.data = landing,
             .bytes = static_cast<uint32_t>(header.length),
             .eager_bytes = eager ? static_cast<uint32_t>(header.length + FrameHeader::kBytes) : 0};
  return {landing, header.length};
}

void Quick::on_landed(const FrameHeader& header, uint64_t bytes) {
  const uint32_t peer = program_->peer_index(header.source);
  messages_[program_->peers[peer].recvs_begin + header.ordinal].arrived += static_cast<uint32_t>(bytes);
}

}  // namespace isthmus::exec
