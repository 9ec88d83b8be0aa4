// SPDX-License-Identifier: Apache-2.0
// Where a call's bytes lie and the arithmetic on them. Called by the step machine with pieces of at most Limits::piece_bytes. Binding
// fails when there is no memory for scratch; reading a peer's memory fails when the peer is gone.
#include <algorithm>
#include <cstring>

#include "exec/run.h"

namespace isthmus::exec {

using plan::StepKind;

namespace {
constexpr uint64_t kLeastStreamedBytes = 4 << 10;
constexpr uint64_t kLeastMeasuredBytes = 16 << 10;
}  // namespace

Status Run::bind(const Call& call) {
  const plan::Plan& plan = program_->plan;
  element_bytes_ = is_send_recv() ? 1 : size_of(signature_.type);
  if (is_send_recv()) {
    binding_.offsets.resize(call.user_bytes.size() + 1);
    binding_.offsets[0] = 0;
    for (size_t i = 0; i < call.user_bytes.size(); ++i) binding_.offsets[i + 1] = binding_.offsets[i] + call.user_bytes[i];
  } else {
    plan::bind(plan.grid, signature_.count, binding_);
  }

  uint64_t scratch_bytes = 0;
  const auto rounded = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto size = [&](const plan::Region& region) {
    return plan::region_bytes(plan, region, binding_, element_bytes_, region.begin, region.end);
  };
  for (const plan::Region& region : plan.regions) {
    if (region.place == plan::Place::scratch) scratch_bytes += rounded(size(region));
  }
  if (scratch_bytes > 0) {
    ISTHMUS_ASSIGN(scratch_, core_.pool.lend(scratch_bytes));
  }
  std::byte* next_scratch = scratch_.data();
  size_t next_user = 0;
  regions_.clear();
  user_keys_.clear();
  for (const plan::Region& region : plan.regions) {
    switch (region.place) {
      case plan::Place::in:
        regions_.push_back(const_cast<std::byte*>(call.in));  // plans never write `in` (proved by the symbolic checker)
        break;
      case plan::Place::out:
        regions_.push_back(call.out);
        break;
      case plan::Place::user:
        user_keys_.resize(regions_.size() + 1);
        user_keys_.back() = call.user_signatures[next_user].key(endpoint_->communicator, call.plan_tag);
        regions_.push_back(call.user_buffers[next_user++]);
        break;
      case plan::Place::scratch:
        regions_.push_back(next_scratch);
        next_scratch += rounded(size(region));
        break;
    }
  }
  for (unsigned flags = 0; flags < maps_.size(); ++flags) {
    maps_[flags].map_in = (flags & plan::kMapIn) != 0 && call.scale_in;
    maps_[flags].scalar = call.scalar;
    maps_[flags].divisor = (flags & plan::kMapOut) != 0 ? static_cast<uint32_t>(plan.ranks) : 1;
  }
  return {};
}

std::byte* Run::at(const plan::Chunk& chunk) const {
  return regions_[chunk.region] + plan::chunk_offset_bytes(program_->plan, chunk, binding_, element_bytes_);
}

uint64_t Run::bytes_of(const plan::Chunk& chunk) const { return plan::chunk_bytes(program_->plan, chunk, binding_, element_bytes_); }

void Run::reduce(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes) {
  const auto kernel = core_.kernels.reduce[static_cast<size_t>(signature_.type)][static_cast<size_t>(step.op)];
  const kernels::ReduceMaps& maps = maps_[step.flags & 3U];
  if (bytes < kLeastStreamedBytes || !core_.distance.far(core_.now)) return kernel(dst, a, b, bytes / element_bytes_, maps);
  alignas(64) std::array<std::byte, 4096> block;  // a result stays in the first cache on its way past the others
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    const uint64_t part = std::min<uint64_t>(block.size(), bytes - at);
    kernel(block.data(), a + at, b + at, part / element_bytes_, maps);
    core_.kernels.stream(dst + at, block.data(), part);
  }
}

void Run::store(std::byte* dst, const std::byte* src, uint64_t bytes) {
  const bool past_caches = bytes >= kLeastStreamedBytes && core_.distance.far(core_.now);
  (past_caches ? core_.kernels.stream : core_.kernels.copy)(dst, src, bytes);
}

void Run::local_piece(const plan::Step& step, uint64_t offset, uint64_t bytes) {
  std::byte* dst = at(step.dst()) + offset;
  const std::byte* src = at(step.src()) + offset;
  if (step.kind == StepKind::reduce) return reduce(step, dst, src, at(step.src2()) + offset, bytes);
  if ((step.flags & (plan::kMapIn | plan::kMapOut)) == 0) return store(dst, src, bytes);
  core_.kernels.map[static_cast<size_t>(signature_.type)](dst, src, bytes / element_bytes_, maps_[step.flags & 3U]);
}

void Run::message_piece(const plan::Step& step, uint64_t offset, const std::byte* message, uint64_t bytes) {
  std::byte* dst = at(step.dst()) + offset;
  if (step.kind == StepKind::recv) return store(dst, message, bytes);
  reduce(step, dst, at(step.src()) + offset, message, bytes);
}

// A piece of a message that is applied as it comes. Transports cut pieces anywhere, so an element may come in two parts.
void Run::stream_piece(const plan::Step& step, Inbound& message, std::span<const std::byte> bytes) {
  if (message.carried > 0) {
    const size_t missing = std::min<size_t>(element_bytes_ - message.carried, bytes.size());
    std::copy_n(bytes.data(), missing, message.carry.data() + message.carried);
    message.carried = static_cast<uint8_t>(message.carried + missing);
    message.arrived += missing;
    bytes = bytes.subspan(missing);
    if (message.carried < element_bytes_) return;
    message_piece(step, message.arrived - element_bytes_, message.carry.data(), element_bytes_);
    message.carried = 0;
  }
  const size_t whole = bytes.size() / element_bytes_ * element_bytes_;
  if (whole > 0) message_piece(step, message.arrived, bytes.data(), whole);
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
    if (seen->data() != at(step.dst()) + offset) message_piece(step, offset, seen->data(), bytes);
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

bool Run::work(uint32_t index, uint64_t& offset) {
  if (!running_) return true;
  const plan::Step& step = program_->plan.steps[index];
  const uint64_t total = bytes_of(step.dst());
  const uint64_t bytes = std::min(core_.limits.piece_bytes, total - offset);
  if (!step.receives()) {
    local_piece(step, offset, bytes);
    offset += bytes;
    if (offset < total) return false;
    complete(index);
    return true;
  }
  Inbound& message = inbound_[program_->inbound[index]];
  if (message.phase == Phase::staged) {
    message_piece(step, offset, message.stage.data() + offset, bytes);
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
