// SPDX-License-Identifier: Apache-2.0
// Builds a Program's tables from its plan. Called by the plan cache and for grouped send/recv; cannot fail.
#include "exec/program.h"

#include <utility>

namespace isthmus::exec {

namespace {

template <typename T>
size_t heap_bytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace

Program::Program(plan::Plan built) : plan(std::move(built)) {
  const size_t steps = plan.steps.size();
  pending.reserve(steps);
  peer_of_step.assign(steps, UINT32_MAX);
  inbound.assign(steps, UINT32_MAX);
  slot_next.assign(steps, plan::kNoStep);
  peer_by_rank_.assign(static_cast<size_t>(plan.ranks), UINT32_MAX);

  for (const plan::PeerTraffic& traffic : plan.peers) {
    peer_by_rank_[static_cast<size_t>(traffic.peer)] = static_cast<uint32_t>(peers.size());
    peers.push_back({.rank = traffic.peer,
                     .sends_begin = static_cast<uint32_t>(send_steps.size()),
                     .sends = traffic.sends,
                     .recvs_begin = static_cast<uint32_t>(recv_steps.size()),
                     .recvs = traffic.recvs});
    send_steps.resize(send_steps.size() + traffic.sends);
    recv_steps.resize(recv_steps.size() + traffic.recvs);
  }
  for (uint32_t index = 0; index < steps; ++index) {
    const plan::Step& step = plan.steps[index];
    pending.push_back(step.deps_count);
    if (step.deps_count == 0) first_ready.push_back(index);
    if (step.peer < 0) continue;
    const uint32_t peer = peer_by_rank_[static_cast<size_t>(step.peer)];
    peer_of_step[index] = peer;
    if (step.kind == plan::StepKind::send) {
      send_steps[peers[peer].sends_begin + step.ordinal] = index;
    } else if (step.receives()) {
      inbound[index] = peers[peer].recvs_begin + step.ordinal;
      recv_steps[inbound[index]] = index;
    }
    if (step.slot_after != plan::kNoStep) slot_next[step.slot_after] = index;
  }
  for (const plan::Region& region : plan.regions) scratch_regions += region.place == plan::Place::scratch ? 1 : 0;
}

size_t Program::bytes() const {
  return sizeof(*this) - sizeof(plan) + plan.bytes() + heap_bytes(pending) + heap_bytes(first_ready) + heap_bytes(peers) +
         heap_bytes(send_steps) + heap_bytes(recv_steps) + heap_bytes(peer_of_step) + heap_bytes(inbound) + heap_bytes(slot_next) +
         heap_bytes(peer_by_rank_);
}

}  // namespace isthmus::exec
