// SPDX-License-Identifier: Apache-2.0
// Binding and arithmetic. See buffers.h.
#include "exec/buffers.h"

#include <algorithm>
#include <utility>

namespace isthmus::exec {

using plan::StepKind;

namespace {

constexpr uint64_t kLeastStreamedBytes = 4 << 10;
/// Nobody finds the beginning of such a result in a cache once its end has been written.
constexpr uint64_t kBeyondCachesBytes = 12 << 20;

uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Status Buffers::bind(const Call& call) {
  const plan::Plan& plan = call.program->plan;
  const bool send_recv = call.signature.collective == Collective::sendrecv;
  const bool same = !send_recv && plan_ == &plan && binding_.count == call.signature.count && type_ == call.signature.type;
  if (same && scratch_bytes_ == 0 && plan.codec == nullptr) {  // another call like the one before
    for (size_t at = 0; at < regions_.size(); ++at) {
      regions_[at] = plan.regions[at].place == plan::Place::in ? const_cast<std::byte*>(call.in) : call.out;
    }
    if (call.scale_in) {
      for (kernels::ReduceMaps& maps : maps_) maps.scalar = call.scalar;
    }
    return {};
  }
  plan_ = &plan;
  coding_ = call.coding;
  call_number_ = call.signature.sequence;
  coded_ = {};
  type_ = call.signature.type;
  element_bytes_ = send_recv ? 1 : size_of(type_);
  if (send_recv) {
    binding_.offsets.resize(call.user_bytes.size() + 1);
    binding_.offsets[0] = 0;
    for (size_t i = 0; i < call.user_bytes.size(); ++i) binding_.offsets[i + 1] = binding_.offsets[i] + call.user_bytes[i];
  } else if (!same) {
    plan::bind(plan.grid, call.signature.count, binding_);
  }
  if (!same) measure_regions(plan);
  if (plan.codec != nullptr && !core_.coding) {
    ISTHMUS_ASSIGN(core_.coding, core_.pool.lend(kCodingBytes));
  }
  if (scratch_bytes_ > 0) {
    ISTHMUS_ASSIGN(scratch_, core_.pool.lend(scratch_bytes_));
  }
  std::byte* next_scratch = scratch_.data();
  size_t next_user = 0;
  regions_.clear();
  for (const plan::Region& region : plan.regions) {
    switch (region.place) {
      case plan::Place::in:
        regions_.push_back(const_cast<std::byte*>(call.in));  // plans never write `in` (proved by the symbolic checker)
        break;
      case plan::Place::out:
        regions_.push_back(call.out);
        break;
      case plan::Place::user:
        regions_.push_back(call.user_buffers[next_user++]);
        break;
      case plan::Place::scratch:
        regions_.push_back(next_scratch);
        next_scratch += rounded(bytes_of({static_cast<uint16_t>(regions_.size() - 1), region.begin, region.end}));
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

void Buffers::measure_regions(const plan::Plan& plan) {
  scratch_bytes_ = result_bytes_ = 0;
  if (plan.codec != nullptr) measure_coded();
  for (size_t index = 0; index < plan.regions.size(); ++index) {
    const plan::Region& region = plan.regions[index];
    const uint64_t bytes = bytes_of({static_cast<uint16_t>(index), region.begin, region.end});
    if (region.place == plan::Place::scratch) scratch_bytes_ += rounded(bytes);
    if (region.place == plan::Place::out) result_bytes_ += bytes;
  }
}

void Buffers::swap(Buffers& other) noexcept {
  std::swap(plan_, other.plan_);
  std::swap(type_, other.type_);
  std::swap(element_bytes_, other.element_bytes_);
  std::swap(binding_, other.binding_);
  regions_.swap(other.regions_);
  std::swap(scratch_, other.scratch_);
  std::swap(scratch_bytes_, other.scratch_bytes_);
  std::swap(result_bytes_, other.result_bytes_);
  coded_begin_.swap(other.coded_begin_);
  coded_offsets_.swap(other.coded_offsets_);
  std::swap(coding_, other.coding_);
  std::swap(call_number_, other.call_number_);
  std::swap(coded_, other.coded_);
  maps_.swap(other.maps_);
}

void Buffers::reduce(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes) {
  const plan::Layout layout = plan_->regions[step.dst_region].layout;
  if (layout != plan::Layout::data) return join_coded(step, dst, a, b, bytes);
  const auto kernel = core_.kernels.reduce[static_cast<size_t>(type_)][static_cast<size_t>(step.op)];
  const kernels::ReduceMaps& maps = maps_[step.flags & 3U];
  if (!past_caches(bytes)) return kernel(dst, a, b, bytes / element_bytes_, maps);
  alignas(64) std::array<std::byte, 4096> block;  // a result stays in the first cache on its way past the others
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    const uint64_t part = std::min<uint64_t>(block.size(), bytes - at);
    kernel(block.data(), a + at, b + at, part / element_bytes_, maps);
    core_.kernels.stream(dst + at, block.data(), part);
  }
}

bool Buffers::past_caches(uint64_t bytes) const {
  return bytes >= kLeastStreamedBytes && (result_bytes_ >= kBeyondCachesBytes || core_.distance.far(core_.now));
}

void Buffers::store(std::byte* dst, const std::byte* src, uint64_t bytes) {
  (past_caches(bytes) ? core_.kernels.stream : core_.kernels.copy)(dst, src, bytes);
}

void Buffers::local_piece(const plan::Step& step, uint64_t offset, uint64_t bytes) {
  std::byte* dst = at(step.dst()) + offset;
  const std::byte* src = at(step.src()) + offset;
  if (step.kind == StepKind::reduce) return reduce(step, dst, src, at(step.src2()) + offset, bytes);
  if ((step.flags & (plan::kMapIn | plan::kMapOut)) == 0) return store(dst, src, bytes);
  core_.kernels.map[static_cast<size_t>(type_)](dst, src, bytes / element_bytes_, maps_[step.flags & 3U]);
}

void Buffers::message_piece(const plan::Step& step, uint64_t offset, const std::byte* message, uint64_t bytes) {
  std::byte* dst = at(step.dst()) + offset;
  if (step.kind == StepKind::recv) return store(dst, message, bytes);
  reduce(step, dst, at(step.src()) + offset, message, bytes);
}

}  // namespace isthmus::exec
