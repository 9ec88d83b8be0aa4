// SPDX-License-Identifier: Apache-2.0
// A run's data work: pieces of messages as they come, of offered memory, of local steps. Called by the step machine with pieces of at most
// Limits::piece_bytes. Reading a peer's memory fails when the peer is gone.
#include <algorithm>

#include "exec/run.h"

namespace isthmus::exec {

using plan::StepKind;

namespace {
constexpr uint64_t kLeastMeasuredBytes = 16 << 10;
}  // namespace

Status Run::bind(const Call& call) {
  ISTHMUS_TRY(buffers_.bind(call));
  user_keys_.assign(is_send_recv() ? program_->plan.regions.size() : 0, 0);
  size_t next_user = 0;
  for (size_t region = 0; region < user_keys_.size(); ++region) {
    if (program_->plan.regions[region].place != plan::Place::user) continue;
    user_keys_[region] = call.user_signatures[next_user++].key(endpoint_->communicator, call.plan_tag);
  }
  return {};
}

// A piece of a message that is applied as it comes. Transports cut pieces anywhere, so an element may come in two parts.
void Run::stream_piece(const plan::Step& step, Inbound& message, std::span<const std::byte> bytes) {
  const uint64_t atom = buffers_.atom_bytes(step);
  if (message.carried > 0) {
    const size_t missing = std::min<size_t>(atom - message.carried, bytes.size());
    std::copy_n(bytes.data(), missing, message.carry.data() + message.carried);
    message.carried = static_cast<uint8_t>(message.carried + missing);
    message.arrived += missing;
    bytes = bytes.subspan(missing);
    if (message.carried < atom) return;
    buffers_.message_piece(step, message.arrived - atom, message.carry.data(), atom);
    message.carried = 0;
  }
  const size_t whole = bytes.size() / atom * atom;
  if (whole > 0) buffers_.message_piece(step, message.arrived, bytes.data(), whole);
  message.arrived += bytes.size();
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(), message.carry.begin());
  message.carried = static_cast<uint8_t>(bytes.size() - whole);
}

// A piece of an offered message: applied from where it lies, or copied into the stage when the apply may not run yet.
bool Run::view_piece(const plan::Step& step, Inbound& message, uint64_t offset, uint64_t bytes) {
  Flow& flow = endpoint_->flows[static_cast<size_t>(step.peer)];
  const bool staging = static_cast<bool>(message.stage);
  const bool direct = !staging && step.kind == StepKind::recv;  // a copy made by the system needs no second one
  const std::span<std::byte> bounce = staging  ? message.stage.span().subspan(offset, bytes)
                                      : direct ? std::span(at(step.dst()) + offset, bytes)
                                               : core_.bounce.span();
  auto seen = flow.transport->view(flow.peer, wire::decode_remote(message.remote), offset, bytes, bounce);
  if (!seen.ok()) {
    bereave(Status(seen.status().code(), seen.status().text(), step.peer));
    return false;
  }
  flow.traffic.read_bytes += bytes;
  if (!staging) {
    if (seen->data() != at(step.dst()) + offset) buffers_.message_piece(step, offset, seen->data(), bytes);
  } else if (seen->data() != bounce.data()) {
    core_.kernels.copy(bounce.data(), seen->data(), bytes);
  }
  return true;
}

bool Run::measured_piece(const plan::Step& step, Inbound& message, uint64_t offset, uint64_t bytes) {
  if (core_.stopwatch == nullptr || bytes < kLeastMeasuredBytes) return view_piece(step, message, offset, bytes);
  const TimeNs begun = core_.stopwatch();
  const bool seen = view_piece(step, message, offset, bytes);
  const auto taken_ns = static_cast<double>(std::max<TimeNs>(1, core_.stopwatch() - begun));
  message.bytes_per_ns = std::max(message.bytes_per_ns, static_cast<double>(bytes) / taken_ns);  // the others were interrupted
  return seen;
}

uint64_t Run::sent_bytes() const {
  uint64_t bytes = 0;
  for (const uint32_t index : program_->send_steps) bytes += bytes_of(program_->plan.steps[index].src());
  return bytes;
}

void Run::push_work(const Work& work) {
  work_.push_back(work);
  std::push_heap(work_.begin(), work_.end());
  if (!has_turn_) core_.turns.push({.run = this, .generation = generation_});
  has_turn_ = true;
}

// The earliest step of the plan goes first: plans are written in the order in which data flows, so the first results are soon on
// their way to others, and the work on the next ones goes on while they travel.
bool Run::work() {
  std::pop_heap(work_.begin(), work_.end());
  Work work = work_.back();
  work_.pop_back();
  if (running_ && !bite(work.step, work.done)) push_work(work);
  has_turn_ = running_ && !work_.empty();
  return has_turn_;
}

// True when the step is complete (or the run has ended).
bool Run::bite(uint32_t index, uint64_t& offset) {
  const plan::Step& step = program_->plan.steps[index];
  if (step.codes()) {
    if (!buffers_.code(step, offset)) return false;
    complete(index);
    return true;
  }
  const uint64_t total = bytes_of(step.dst());
  const uint64_t most = step.kind == StepKind::recv_reduce
                            ? core_.limits.piece_bytes / buffers_.atom_bytes(step) * buffers_.atom_bytes(step)
                            : core_.limits.piece_bytes;
  const uint64_t bytes = std::min(most, total - offset);
  if (!step.receives()) {
    buffers_.local_piece(step, offset, bytes);
    offset += bytes;
    if (offset < total) return false;
    complete(index);
    return true;
  }
  Inbound& message = inbound_[program_->inbound[index]];
  if (message.phase == Phase::staged) {
    buffers_.message_piece(step, offset, message.stage.data() + offset, bytes);
  } else if (!measured_piece(step, message, offset, bytes)) {
    return true;
  }
  offset += bytes;
  if (offset < total) return false;
  if (message.phase == Phase::offered && message.stage) {  // the copy is complete; the apply comes when its turn has come
    send_done(index, message);
    message.phase = Phase::staged;
    message.stage_offer = false;
    message.arrived = total;
    if (running_ && pending_[index] == 0) receivable(index);
    return true;
  }
  consumed(index, message);
  return true;
}

}  // namespace isthmus::exec
