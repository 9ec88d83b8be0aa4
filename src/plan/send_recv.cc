// SPDX-License-Identifier: Apache-2.0
// The flat plans of grouped send/recv. Called by comm/; refuses peers that do not exist and self-transfers that do not pair up.
#include "plan/send_recv.h"

#include <fmt/core.h>

#include <algorithm>

#include "plan/bounds.h"

namespace isthmus::plan {

namespace {

void clear(Plan& plan, int32_t rank, int32_t ranks) {
  plan.name = "send_recv";
  plan.collective = Collective::sendrecv;
  plan.rank = rank;
  plan.ranks = plan.group_size = ranks;
  plan.root = -1;
  plan.in_place = plan.map_in = false;
  plan.op = ReduceOp::sum;
  plan.codec = nullptr;
  plan.regions.assign(kFirstUser, Region{.place = Place::in});
  plan.regions[kOut].place = Place::out;
  plan.steps.clear();
  plan.deps.clear();
  plan.successors.assign(static_cast<size_t>(ranks), 0);
  plan.slots.clear();
  plan.peers.clear();
  plan.sites.assign(1, Site{"send_recv", 0});
}

/// The number of this message within (sender, receiver). While such a plan is built, its successor list, which ends up empty, tells
/// where in `peers` a rank is (1 + index): that memory is there already and stays with the plan.
uint32_t next_ordinal(Plan& plan, const Transfer& transfer) {
  uint32_t& at = plan.successors[static_cast<size_t>(transfer.peer)];
  if (at == 0) {
    plan.peers.push_back({.peer = transfer.peer});
    at = static_cast<uint32_t>(plan.peers.size());
  }
  PeerTraffic& traffic = plan.peers[at - 1];
  return transfer.is_send ? traffic.sends++ : traffic.recvs++;
}

Step message(Plan& plan, const Transfer& transfer, uint32_t cell) {
  Step step{.cells = 1, .peer = transfer.peer, .ordinal = next_ordinal(plan, transfer)};
  const auto region = static_cast<uint16_t>(kFirstUser + cell);
  if (transfer.is_send) {
    step.kind = StepKind::send;
    step.flags = kReadInPlace;  // nothing in this plan writes a source
    step.src_region = region;
    step.src_begin = cell;
  } else {
    step.kind = StepKind::recv;
    step.dst_region = region;
    step.dst_begin = cell;
  }
  return step;
}

/// The next transfer of that direction between the rank and itself, from `from` on; transfers.size() if there is none.
size_t next_own(std::span<const Transfer> transfers, int32_t rank, bool is_send, size_t from) {
  while (from < transfers.size() && (transfers[from].peer != rank || transfers[from].is_send != is_send)) ++from;
  return from;
}

Status add_copies(Plan& plan, std::span<const Transfer> transfers) {
  size_t send = next_own(transfers, plan.rank, true, 0);
  size_t recv = next_own(transfers, plan.rank, false, 0);
  while (send < transfers.size() && recv < transfers.size()) {
    if (transfers[send].bytes != transfers[recv].bytes) {
      return invalid_usage(
          fmt::format("rank {} sends {} bytes to itself but receives {} bytes from itself; make the counts of the pair equal", plan.rank,
                      transfers[send].bytes, transfers[recv].bytes),
          plan.rank);
    }
    Step step{.kind = StepKind::copy, .cells = 1};
    step.src_region = static_cast<uint16_t>(kFirstUser + send);
    step.dst_region = static_cast<uint16_t>(kFirstUser + recv);
    step.src_begin = static_cast<uint32_t>(send);
    step.dst_begin = static_cast<uint32_t>(recv);
    plan.steps.push_back(step);
    send = next_own(transfers, plan.rank, true, send + 1);
    recv = next_own(transfers, plan.rank, false, recv + 1);
  }
  if (send == recv) return {};
  return invalid_usage(fmt::format("rank {} {} itself without the matching {} in the same group; put both into one group", plan.rank,
                                   send < recv ? "sends to" : "receives from", send < recv ? "receive" : "send"),
                       plan.rank);
}

}  // namespace

Status build_send_recv(int32_t rank, int32_t ranks, std::span<const Transfer> transfers, Plan& plan, Binding& binding) {
  if (transfers.size() > kMaxRegions - kFirstUser) {
    return invalid_argument(
        fmt::format("{} transfers in one group; the limit is {}, split the group", transfers.size(), kMaxRegions - kFirstUser));
  }
  clear(plan, rank, ranks);
  plan.grid = {.blocks = 1, .cells_per_block = static_cast<uint32_t>(std::max<size_t>(1, transfers.size())), .align = 1};
  binding.offsets.assign(1, 0);
  for (uint32_t cell = 0; cell < transfers.size(); ++cell) {
    const Transfer& transfer = transfers[cell];
    if (transfer.peer < 0 || transfer.peer >= ranks) {
      return invalid_argument(fmt::format("peer {} is not a rank of a communicator of {}", transfer.peer, ranks), rank);
    }
    plan.regions.push_back({.place = Place::user, .begin = cell, .end = cell + 1});
    binding.offsets.push_back(binding.offsets.back() + transfer.bytes);
    if (transfer.peer != rank) plan.steps.push_back(message(plan, transfer, cell));
  }
  binding.offsets.resize(plan.grid.cells() + size_t{1}, 0);
  binding.count = binding.offsets.back();
  ISTHMUS_TRY(add_copies(plan, transfers));
  plan.successors.clear();
  plan.successors_begin.assign(plan.steps.size() + 1, 0);
  return {};
}

}  // namespace isthmus::plan
