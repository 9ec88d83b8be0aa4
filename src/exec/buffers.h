// SPDX-License-Identifier: Apache-2.0
// Where a call's bytes lie and the arithmetic on them: the regions of a plan bound to a call's buffers and count, scratch memory, the
// element maps. Used by the two ways to carry out a call (run.h, quick.h), with pieces of at most Limits::piece_bytes. Binding fails
// when there is no memory for scratch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "exec/call.h"
#include "exec/core.h"

namespace isthmus::exec {

class Buffers {
 public:
  explicit Buffers(Core& core) : core_(core) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Binds the call's program, which must stay alive. Cheap when it is the program and the count of the time before.
  Status bind(const Call& call);
  /// bind() would be cheap.
  [[nodiscard]] bool are_of(const Call& call) const {
    return plan_ == &call.program->plan && binding_.count == call.signature.count && type_ == call.signature.type;
  }
  /// Gives scratch back.
  void release() {
    if (scratch_bytes_ > 0) scratch_.reset();
  }
  /// After release(): the program may go.
  void forget() { plan_ = nullptr; }
  void swap(Buffers& other) noexcept;

  [[nodiscard]] size_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] std::byte* at(const plan::Chunk& chunk) const {
    return regions_[chunk.region] + plan::chunk_offset_bytes(*plan_, chunk, binding_, element_bytes_);
  }
  [[nodiscard]] uint64_t bytes_of(const plan::Chunk& chunk) const { return plan::chunk_bytes(*plan_, chunk, binding_, element_bytes_); }

  /// Where a region begins, by its number in the plan.
  [[nodiscard]] std::byte* base(size_t region) const { return regions_[region]; }
  [[nodiscard]] uint64_t offset_of(const plan::Chunk& chunk) const { return static_cast<uint64_t>(at(chunk) - regions_[chunk.region]); }

  /// A piece of a copy, reduce or map step.
  void local_piece(const plan::Step& step, uint64_t offset, uint64_t bytes);
  /// A piece of a message that a recv or recv_reduce step has got.
  void message_piece(const plan::Step& step, uint64_t offset, const std::byte* message, uint64_t bytes);
  /// The arithmetic alone: a result is put where it belongs, past the caches where that is faster.
  void store(std::byte* dst, const std::byte* src, uint64_t bytes);
  void reduce(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes);

 private:
  void measure_regions(const plan::Plan& plan);
  [[nodiscard]] bool past_caches(uint64_t bytes) const;

  Core& core_;
  const plan::Plan* plan_ = nullptr;
  DataType type_ = DataType::uint8;
  size_t element_bytes_ = 1;
  plan::Binding binding_;
  std::vector<std::byte*> regions_;  ///< base pointer per region
  memory::Block scratch_;
  uint64_t scratch_bytes_ = 0;
  uint64_t result_bytes_ = 0;
  std::array<kernels::ReduceMaps, 4> maps_;  ///< by StepFlag bits kMapIn | kMapOut
};

}  // namespace isthmus::exec
