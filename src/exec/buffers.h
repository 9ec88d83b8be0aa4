// SPDX-License-Identifier: Apache-2.0
// Where a call's bytes lie and the arithmetic on them: the regions of a plan bound to a call's buffers and count, scratch memory, the
// element maps, the codec (buffers_coding.cc). Used by the two ways to carry out a call (run.h, quick.h), with pieces of at most
// Limits::piece_bytes. Binding fails when there is no memory for scratch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "exec/call.h"
#include "exec/core.h"
#include "kernels/coding.h"

namespace isthmus::exec {

/// Of Core::coding.
inline constexpr size_t kCodingBytes = 3 * sizeof(float) * 8192;

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
  /// Gives scratch and feedback back.
  void release() {
    coding_.residual.reset();
    if (scratch_bytes_ > 0) scratch_.reset();
  }
  /// After release(): the program may go.
  void forget() { plan_ = nullptr; }
  void swap(Buffers& other) noexcept;

  [[nodiscard]] size_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] std::byte* at(const plan::Chunk& chunk) const {
    const plan::Region& region = plan_->regions[chunk.region];
    if (region.layout != plan::Layout::data) return regions_[chunk.region] + coded_offset(chunk.region, chunk.begin);
    return regions_[chunk.region] + binding_.elements(region.begin, chunk.begin) * element_bytes_;
  }
  [[nodiscard]] uint64_t bytes_of(const plan::Chunk& chunk) const {
    if (plan_->regions[chunk.region].layout == plan::Layout::data) return binding_.elements(chunk) * element_bytes_;
    return coded_offset(chunk.region, chunk.end) - coded_offset(chunk.region, chunk.begin);
  }
  /// Pieces of a step's messages and results are multiples of this: an element, a scale, or a unit of an encoding.
  [[nodiscard]] uint64_t atom_bytes(const plan::Step& step) const;

  /// Where a region begins, by its number in the plan.
  [[nodiscard]] std::byte* base(size_t region) const { return regions_[region]; }
  [[nodiscard]] uint64_t offset_of(const plan::Chunk& chunk) const { return static_cast<uint64_t>(at(chunk) - regions_[chunk.region]); }

  /// A bite of a measure, encode, accumulate or decode step; `done` says how far it is, 0 at first. True when it is complete.
  bool code(const plan::Step& step, uint64_t& done);
  /// The call has ended well, and its rank has sent so many bytes.
  void report(uint64_t sent_bytes);
  [[nodiscard]] bool reports() const { return coding_.report != nullptr; }

  /// A piece of a copy, reduce or map step.
  void local_piece(const plan::Step& step, uint64_t offset, uint64_t bytes);
  /// A piece of a message that a recv or recv_reduce step has got.
  void message_piece(const plan::Step& step, uint64_t offset, const std::byte* message, uint64_t bytes);
  /// The arithmetic alone: a result is put where it belongs, past the caches where that is faster.
  void store(std::byte* dst, const std::byte* src, uint64_t bytes);
  void reduce(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes);

 private:
  void measure_regions(const plan::Plan& plan);
  void measure_coded();
  [[nodiscard]] uint64_t coded_offset(uint16_t region, uint32_t cell) const {
    return coded_offsets_[coded_begin_[region] + cell - plan_->regions[region].begin];
  }
  void join_coded(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes);
  struct Bite;
  bool code_pieces(const plan::Step& step, uint64_t& done);
  void measure_piece(const plan::Step& step, const Bite& bite);
  void encode_piece(const plan::Step& step, const Bite& bite);
  void decode_piece(const plan::Step& step, const Bite& bite);
  bool accumulate_units(const plan::Step& step, uint64_t& done);
  [[nodiscard]] kernels::CodecInput input_of(const plan::Step& step, const Bite& bite) const;
  [[nodiscard]] float scale_of(const plan::Chunk& scales, const Bite& bite) const;
  [[nodiscard]] kernels::CodecKey codec_key() const;
  [[nodiscard]] uint64_t position_of(uint32_t cell, const codec::Piece& piece) const;
  [[nodiscard]] bool past_caches(uint64_t bytes) const;

  Core& core_;
  const plan::Plan* plan_ = nullptr;
  DataType type_ = DataType::uint8;
  size_t element_bytes_ = 1;
  plan::Binding binding_;
  std::vector<std::byte*> regions_;      ///< base pointer per region
  std::vector<size_t> coded_begin_;      ///< with a codec: by region, its first in coded_offsets_
  std::vector<uint64_t> coded_offsets_;  ///< for each cell of regions that hold no plain elements, and one more: bytes before it
  Coding coding_;
  uint32_t call_number_ = 0;
  Coded coded_;
  memory::Block scratch_;
  uint64_t scratch_bytes_ = 0;
  uint64_t result_bytes_ = 0;
  std::array<kernels::ReduceMaps, 4> maps_;  ///< by StepFlag bits kMapIn | kMapOut
};

}  // namespace isthmus::exec
