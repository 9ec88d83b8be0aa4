// SPDX-License-Identifier: Apache-2.0
// The abstract machine over all ranks' plans. Called by the checkers and the cost walk; fails if messages do not match.
#include "plan/walk.h"

#include <fmt/core.h>

#include <algorithm>

#include "plan/print.h"

namespace isthmus::plan {

// --- matching --------------------------------------------------------------------------------------------------------------

Result<Walk> Walk::start(World world, uint64_t count, Reads reads) {
  Walk walk;
  walk.world_ = world;
  walk.reads_ = reads;
  walk.first_.reserve(world.size());
  size_t steps = 0;
  for (const Plan& plan : world) {
    if (plan.collective != Collective::sendrecv && !(plan.grid == world[0].grid)) {
      return internal_error(fmt::format("ranks {} and {} have different grids", world[0].rank, plan.rank));
    }
    walk.first_.push_back(steps);
    steps += plan.steps.size();
  }
  walk.states_.resize(steps);
  walk.remaining_ = steps;
  walk.binding_.count = count;
  if (!world.empty() && world[0].collective != Collective::sendrecv) bind(world[0].grid, count, walk.binding_);
  ISTHMUS_TRY(walk.open_channels());
  ISTHMUS_TRY(walk.match());
  walk.begin();
  return walk;
}

Status Walk::open_channels() {
  int32_t ranks = 0;
  for (const Plan& plan : world_) ranks = std::max({ranks, plan.ranks, plan.rank + 1});
  std::vector<uint32_t> channel_of_rank(static_cast<size_t>(ranks), UINT32_MAX);
  for (uint32_t plan = 0; plan < world_.size(); ++plan) {
    channels_begin_.push_back(static_cast<uint32_t>(channels_.size()));
    ISTHMUS_TRY(list_messages(plan, channel_of_rank));
  }
  channels_begin_.push_back(static_cast<uint32_t>(channels_.size()));
  return {};
}

/// Lists one rank's messages by peer and ordinal. `channel_of_rank` is all "none" before and after.
Status Walk::list_messages(uint32_t plan, std::vector<uint32_t>& channel_of_rank) {
  const Plan& rank = world_[plan];
  for (const PeerTraffic& traffic : rank.peers) {
    if (traffic.peer < 0 || static_cast<size_t>(traffic.peer) >= channel_of_rank.size()) {
      return internal_error(fmt::format("rank {} has traffic with rank {}, which does not exist", rank.rank, traffic.peer));
    }
    channel_of_rank[static_cast<size_t>(traffic.peer)] = static_cast<uint32_t>(channels_.size());
    channels_.push_back({.plan = plan,
                         .peer = traffic.peer,
                         .sends_begin = static_cast<uint32_t>(send_steps_.size()),
                         .sends = traffic.sends,
                         .recvs_begin = static_cast<uint32_t>(recv_steps_.size()),
                         .recvs = traffic.recvs});
    send_steps_.resize(send_steps_.size() + traffic.sends, kNoStep);
    recv_steps_.resize(recv_steps_.size() + traffic.recvs, kNoStep);
  }
  for (uint32_t i = 0; i < rank.steps.size(); ++i) {
    const Step& step = rank.steps[i];
    State& entry = state({plan, i});
    entry.pending = step.deps_count;
    if (step.slot_after != kNoStep) state({plan, step.slot_after}).slot_next = i;
    if (!step.is_message()) continue;
    const bool known = step.peer >= 0 && static_cast<size_t>(step.peer) < channel_of_rank.size();
    entry.channel = known ? channel_of_rank[static_cast<size_t>(step.peer)] : UINT32_MAX;
    if (entry.channel == UINT32_MAX) return internal_error(fmt::format("rank {}: peer not listed: {}", rank.rank, to_text(rank, i)));
    const Channel& channel = channels_[entry.channel];
    const bool sends = step.kind == StepKind::send;
    const uint32_t limit = sends ? channel.sends : channel.recvs;
    uint32_t* at = sends ? &send_steps_[channel.sends_begin] : &recv_steps_[channel.recvs_begin];
    if (step.ordinal >= limit || at[step.ordinal] != kNoStep) {
      return internal_error(fmt::format("rank {}: message number out of order: {}", rank.rank, to_text(rank, i)));
    }
    at[step.ordinal] = i;
  }
  for (const PeerTraffic& traffic : rank.peers) channel_of_rank[static_cast<size_t>(traffic.peer)] = UINT32_MAX;
  return {};
}

/// Joins both ends of every pair of ranks. Numbers below sends/recvs that no step has make the counts differ, or leave a hole.
Status Walk::match() {
  std::vector<uint32_t> order(channels_.size());  // by (rank, peer)
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](int32_t rank, int32_t peer) { return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(peer); };
  const auto key_of = [&](uint32_t channel) { return key(world_[channels_[channel].plan].rank, channels_[channel].peer); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key_of(a) < key_of(b); });
  for (Channel& channel : channels_) {
    const int32_t rank = world_[channel.plan].rank;
    const uint64_t wanted = key(channel.peer, rank);
    const auto found = std::lower_bound(order.begin(), order.end(), wanted, [&](uint32_t a, uint64_t k) { return key_of(a) < k; });
    const bool exists = found != order.end() && key_of(*found) == wanted;
    const uint32_t expected = exists ? channels_[*found].recvs : 0;
    if (channel.sends != expected || (!exists && channel.recvs > 0)) {
      return internal_error(
          fmt::format("rank {} sends {} messages to rank {}, which receives {} from it", rank, channel.sends, channel.peer, expected));
    }
    channel.counterpart = exists ? *found : UINT32_MAX;
  }
  const bool holes =
      std::count(send_steps_.begin(), send_steps_.end(), kNoStep) + std::count(recv_steps_.begin(), recv_steps_.end(), kNoStep);
  return holes ? internal_error("a plan lists more messages with a peer than it has steps for them") : Status();
}

Walk::At Walk::partner(At at) const {
  const Channel& channel = channels_[state(at).channel];
  const Channel& other = channels_[channel.counterpart];
  const uint32_t ordinal = step(at).ordinal;
  const bool sends = step(at).kind == StepKind::send;
  return {other.plan, sends ? recv_steps_[other.recvs_begin + ordinal] : send_steps_[other.sends_begin + ordinal]};
}

// --- what may happen -------------------------------------------------------------------------------------------------------

void Walk::begin() {
  for (uint32_t plan = 0; plan < world_.size(); ++plan) {
    for (uint32_t i = 0; i < world_[plan].steps.size(); ++i) {
      const Step& what = world_[plan].steps[i];
      const bool awaits_room = what.kind == StepKind::send && travels(what);  // advance() enables those
      if (state({plan, i}).pending == 0 && !awaits_room) ready({plan, i});
    }
  }
  for (Channel& channel : channels_) advance(channel);
}

uint64_t Walk::elements(const Step& step) const {
  if (world_[0].collective == Collective::sendrecv) return binding_.count * step.cells;
  return binding_.elements(step.kind == StepKind::send ? step.src() : step.dst());
}

bool Walk::travels(const Step& step) const {
  return step.is_message() && (world_[0].collective == Collective::sendrecv || elements(step) > 0);
}

bool Walk::read_in_place(At send) const { return reads_ == Reads::in_place && (step(send).flags & kReadInPlace) != 0; }

/// All predecessors are complete.
void Walk::ready(At at) {
  const Step& what = step(at);
  if (what.receives()) advance(channels_[state(at).channel]);
  if (!slot_is_free(what, at.plan)) return;  // a message without bytes must not pass on what an earlier holder still has
  if (!travels(what) || state(at).arrived) return enabled_.push_back({at, false});
  if (what.kind != StepKind::send) return;
  const At receiver = partner(at);
  if (what.ordinal < channels_[state(receiver).channel].landable) enabled_.push_back({at, true});
}

bool Walk::has_room(uint32_t plan, uint32_t index) const {
  const State& entry = state({plan, index});
  const Step& what = step({plan, index});
  if (what.kind == StepKind::recv || !travels(what)) return entry.pending == 0;
  return slot_is_free(what, plan);
}

bool Walk::slot_is_free(const Step& what, uint32_t plan) const {
  return what.slot_after == kNoStep || state({plan, what.slot_after}).complete;
}

/// Raises the number up to which the peer's messages can land; sends that waited for it may move.
void Walk::advance(Channel& channel) {
  while (channel.landable < channel.recvs) {
    const At receiver{channel.plan, recv_steps_[channel.recvs_begin + channel.landable]};
    if (!has_room(receiver.plan, receiver.step)) return;
    ++channel.landable;
    const At send = partner(receiver);
    if (state(send).pending == 0 && travels(step(send))) enabled_.push_back({send, true});
  }
}

void Walk::complete(At at) {
  State& entry = state(at);
  entry.complete = true;
  --remaining_;
  const At heir{at.plan, entry.slot_next};
  const bool lacks_slot = entry.slot_next != kNoStep && state(heir).pending == 0;  // only that; the heir may be a successor, too
  for (uint32_t next : world_[at.plan].successors_of(at.step)) {
    if (--state({at.plan, next}).pending == 0) ready({at.plan, next});
  }
  if (entry.slot_next == kNoStep) return;
  if (lacks_slot) return ready(heir);
  advance(channels_[state(heir).channel]);
}

void Walk::computed(At at) {
  complete(at);
  if (step(at).kind != StepKind::recv_reduce || !travels(step(at))) return;
  if (const At send = partner(at); read_in_place(send)) complete(send);
}

void Walk::left(At send) {
  if (!read_in_place(send)) complete(send);
}

void Walk::landed(At send) {
  const At receiver = partner(send);
  if (step(receiver).kind == StepKind::recv) {
    complete(receiver);
    if (read_in_place(send)) complete(send);
    return;
  }
  state(receiver).arrived = true;
  if (state(receiver).pending == 0) enabled_.push_back({receiver, false});
}

// --- stalls ----------------------------------------------------------------------------------------------------------------

/// Moves `at` to a step that it waits for; returns the reason.
const char* Walk::blocker(At& at) const {
  const At waiting = at;
  const Step& what = step(waiting);
  for (uint32_t before : world_[waiting.plan].deps_of(what)) {
    if (state({waiting.plan, before}).complete) continue;
    at.step = before;
    return "follows";
  }
  if (what.receives()) {
    if (what.slot_after != kNoStep && !state({waiting.plan, what.slot_after}).complete) {
      at.step = what.slot_after;
      return "receives into the slot of";
    }
    at = partner(waiting);
    return "waits for the message of";
  }
  const At receiver = partner(waiting);
  const Channel& channel = channels_[state(receiver).channel];
  at = {channel.plan, recv_steps_[channel.recvs_begin + std::min(channel.landable, what.ordinal)]};
  return at == receiver ? "needs room for" : "comes after the message of";
}

std::string Walk::describe_stall() const {
  At at;
  for (at.plan = 0; at.plan < world_.size(); ++at.plan) {
    const auto& steps = world_[at.plan].steps;
    at.step = 0;
    while (at.step < steps.size() && state(at).complete) ++at.step;
    if (at.step < steps.size()) break;
  }
  std::vector<At> path;  // from any unfinished step to whom it waits for, until a step comes twice
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    blocker(at);
  }
  std::string text;
  for (auto next = std::find(path.begin(), path.end(), at); next != path.end(); ++next) {
    At blocked_by = *next;
    const char* why = blocker(blocked_by);
    text += fmt::format("\n  rank {} {}\n    {}", world_[next->plan].rank, to_text(world_[next->plan], next->step), why);
  }
  return text + fmt::format("\n  rank {} {}", world_[at.plan].rank, to_text(world_[at.plan], at.step));
}

}  // namespace isthmus::plan
