// SPDX-License-Identifier: Apache-2.0
// What a running call needs of others so that it can end: messages that have not come, and peers without whose own call a send cannot
// end. Only what is certain counts, for ranks are declared stuck by it (comm/standstill.h). Called when a call has waited for long.
#include <algorithm>

#include "exec/run.h"

namespace isthmus::exec {

namespace {
constexpr uint32_t kDone = UINT32_MAX;
}

// A message of which nothing has come.
bool Run::is_absent(uint32_t index) const {
  const plan::Step& step = program_->plan.steps[index];
  if (!step.receives() || pending_[index] == kDone) return false;
  return inbound_[program_->inbound[index]].phase == Phase::absent && (is_send_recv() || bytes_of(step.dst()) > 0);
}

Need Run::need_of(uint32_t index) const {
  const plan::Step& step = program_->plan.steps[index];
  const PeerState& state = peers_[program_->peer_of_step[index]];
  Need need{.rank = step.peer, .call_class = class_, .message = step.receives(), .number = signature_.sequence, .ordinal = step.ordinal};
  if (is_send_recv()) need.number = (need.message ? state.recv_base : state.send_base) + step.ordinal;
  return need;
}

// Sends under way to `peer` cannot end without its call if they are all offered to it, or too large for the credit there is.
bool Run::is_held_by_peer(uint32_t index) const {
  const plan::Step& step = program_->plan.steps[index];
  if (step.kind != plan::StepKind::send || pending_[index] != 0) return false;
  const uint64_t bytes = bytes_of(step.src());
  if (bytes + wire::FrameHeader::kBytes > core_.limits.eager_bytes) return true;
  const uint32_t peer = program_->peer_of_step[index];
  const Program::Peer& traffic = program_->peers[peer];
  uint32_t could_be_offered = 0;
  for (uint32_t i = 0; i < traffic.sends; ++i) {
    const uint32_t other = program_->send_steps[traffic.sends_begin + i];
    could_be_offered += pending_[other] == 0 && bytes_of(program_->plan.steps[other].src()) >= core_.limits.offer_bytes ? 1 : 0;
  }
  return bytes >= core_.limits.offer_bytes && could_be_offered == peers_[peer].offered;
}

void Run::needs(std::vector<Need>& needs) const {
  for (uint32_t index = 0; index < program_->plan.steps.size(); ++index) {
    if (is_absent(index) || is_held_by_peer(index)) needs.push_back(need_of(index));
  }
}

uint32_t Run::first_number(int32_t rank, bool message_from_me) const {
  if (!is_send_recv()) return signature_.sequence;
  const uint32_t peer = program_->peer_index(rank);
  if (peer == UINT32_MAX) {
    const Flow& flow = endpoint_->flows[static_cast<size_t>(rank)];
    return message_from_me ? flow.next_send : flow.next_recv;
  }
  return message_from_me ? peers_[peer].send_base : peers_[peer].recv_base;
}

bool Run::is_past(int32_t rank, const Need& asked) const {
  return static_cast<int32_t>(asked.number - first_number(rank, asked.message)) < 0;
}

bool Run::contains(int32_t rank, const Need& asked) const {
  if (!is_send_recv()) return asked.number == signature_.sequence;
  const uint32_t peer = program_->peer_index(rank);
  if (peer == UINT32_MAX || is_past(rank, asked)) return false;
  return asked.number - first_number(rank, asked.message) < (asked.message ? program_->peers[peer].sends : program_->peers[peer].recvs);
}

// Everything absent on which the sending step depends, directly or through other steps.
void Run::needs_to_send(int32_t rank, const Need& asked, std::vector<Need>& needs) const {
  const uint32_t peer = program_->peer_index(rank);
  if (is_send_recv() || peer == UINT32_MAX || asked.ordinal >= program_->peers[peer].sends) return;
  const plan::Plan& plan = program_->plan;
  std::vector<uint32_t> open{program_->send_steps[program_->peers[peer].sends_begin + asked.ordinal]};
  std::vector<bool> seen(plan.steps.size());
  while (!open.empty()) {
    const uint32_t index = open.back();
    open.pop_back();
    if (seen[index] || pending_[index] == kDone) continue;
    seen[index] = true;
    if (is_absent(index)) needs.push_back(need_of(index));
    for (const uint32_t dep : plan.deps_of(plan.steps[index])) open.push_back(dep);
  }
}

}  // namespace isthmus::exec
