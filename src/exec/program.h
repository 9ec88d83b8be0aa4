// SPDX-License-Identifier: Apache-2.0
// A plan prepared for execution: the plan plus the tables that let the executor find, in constant time, the step that a message
// belongs to. Built once per plan by the plan cache, shared by every call that runs it. Cannot fail.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace isthmus::exec {

struct Program {
  /// Messages exchanged with one peer; the steps are send_steps[sends_begin + ordinal] and recv_steps[recvs_begin + ordinal].
  struct Peer {
    int32_t rank = -1;
    uint32_t sends_begin = 0, sends = 0;
    uint32_t recvs_begin = 0, recvs = 0;
  };

  explicit Program(plan::Plan built);

  plan::Plan plan;
  std::vector<uint32_t> pending;      ///< per step: how many predecessors must complete first
  std::vector<uint32_t> first_ready;  ///< steps without predecessors, in plan order
  std::vector<Peer> peers;
  std::vector<uint32_t> send_steps, recv_steps;
  std::vector<uint32_t> peer_of_step;  ///< per step: index into peers (message steps only)
  std::vector<uint32_t> inbound;       ///< per step: its place in recv_steps (receiving steps only)
  std::vector<uint32_t> slot_next;     ///< per step: the recv_reduce that takes over its inbox slot, or kNoStep
  uint32_t scratch_regions = 0;

  /// Index into peers of a communicator rank, or UINT32_MAX.
  [[nodiscard]] uint32_t peer_index(int32_t rank) const {
    return rank >= 0 && static_cast<size_t>(rank) < peer_by_rank_.size() ? peer_by_rank_[static_cast<size_t>(rank)] : UINT32_MAX;
  }
  /// Heap and object bytes, for the cache's limit.
  [[nodiscard]] size_t bytes() const;

 private:
  std::vector<uint32_t> peer_by_rank_;
};

}  // namespace isthmus::exec
