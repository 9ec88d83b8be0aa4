// SPDX-License-Identifier: Apache-2.0
// The codec's steps of a call: measure, encode, accumulate, decode, in bites small enough that nobody else waits long. Called by the step
// machine. Nothing here fails: plans have been proved, and numbers that no codec can hold become NaN as docs/compression.md says.
#include <algorithm>
#include <cstring>
#include <utility>

#include "codec/thc.h"
#include "exec/buffers.h"
#include "kernels/baseline.h"
#include "kernels/thc.h"

namespace isthmus::exec {

using plan::Chunk;
using plan::Layout;
using plan::StepKind;

namespace {

constexpr uint64_t kBiteElements = 64 << 10;
/// The first of so many pieces is decoded where it was encoded, to see what was lost.
constexpr uint64_t kSampledPieces = 64;
constexpr size_t kWorkFloats = codec::kMaxGroup;
static_assert(kCodingBytes == 3 * kWorkFloats * sizeof(float) && codec::kPieceElements <= kWorkFloats);

/// How far a step is: its cell, counted from its first, and the piece there.
uint64_t progress(uint32_t cell, uint64_t piece) { return uint64_t{cell} << 40 | piece; }
std::pair<uint32_t, uint64_t> position(uint64_t done) { return {static_cast<uint32_t>(done >> 40), done & ((uint64_t{1} << 40) - 1)}; }

double energy(const float* values, size_t count, size_t stride) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += double{values[i * stride]} * double{values[i * stride]};
  return sum;
}

}  // namespace

/// One piece of one cell of a step.
struct Buffers::Bite {
  uint32_t cell;  ///< counted from the step's first
  uint64_t index;
  codec::Piece piece;
  size_t count;  ///< elements of it that exist
};

void Buffers::measure_coded() {
  coded_begin_.clear();
  coded_offsets_.clear();
  for (const plan::Region& region : plan_->regions) {
    coded_begin_.push_back(coded_offsets_.size());
    if (region.layout == Layout::data) continue;
    uint64_t bytes = 0;
    coded_offsets_.push_back(0);
    for (uint32_t cell = region.begin; cell < region.end; ++cell) {
      bytes += plan::region_bytes(*plan_, region, binding_, element_bytes_, cell, cell + 1);
      coded_offsets_.push_back(bytes);
    }
  }
}

uint64_t Buffers::atom_bytes(const plan::Step& step) const {
  const plan::Region& region = plan_->regions[step.dst_region];
  if (region.layout == Layout::data) return element_bytes_;
  if (region.layout == Layout::scale) return sizeof(float);
  return plan_->codec->encoded_bytes(*plan_->codec, codec::kUnitElements, region.summands);
}

kernels::CodecKey Buffers::codec_key() const {
  return {
      .seed = coding_.seed, .op = call_number_, .rank = static_cast<uint32_t>(plan_->rank), .ranks = static_cast<uint32_t>(plan_->ranks)};
}

// Blocks begin at whole units, so that every piece of a call has its own random numbers whatever the count.
uint64_t Buffers::position_of(uint32_t cell, const codec::Piece& piece) const {
  const uint32_t block = cell / plan_->grid.cells_per_block;
  const uint64_t padded = (binding_.count + codec::kUnitElements - 1) / codec::kUnitElements * codec::kUnitElements;
  return block * padded + (binding_.offsets[cell] - block * binding_.count) + piece.first;
}

bool Buffers::code(const plan::Step& step, uint64_t& done) {
  if (step.kind == StepKind::accumulate) return accumulate_units(step, done);
  const bool complete = code_pieces(step, done);
  if (step.kind == StepKind::decode) kernels::settle_stores();
  return complete;
}

bool Buffers::code_pieces(const plan::Step& step, uint64_t& done) {
  const uint32_t first_cell = step.dst_begin;  // operands have the same sizes
  auto [cell, index] = position(done);
  uint64_t elements = 0;
  for (; cell < step.cells; ++cell, index = 0) {
    const uint64_t in_cell = binding_.elements(first_cell + cell, first_cell + cell + 1);
    const uint64_t pieces = codec::pieces(*plan_->codec, in_cell);
    for (; index < pieces; ++index) {
      if (elements >= kBiteElements) {
        done = progress(cell, index);
        return false;
      }
      const codec::Piece piece = codec::piece(*plan_->codec, in_cell, index);
      const uint64_t count = piece.begin >= in_cell ? 0 : (in_cell - piece.begin + piece.stride - 1) / piece.stride;
      const Bite bite = {.cell = cell, .index = index, .piece = piece, .count = std::min<uint64_t>(piece.elements, count)};
      if (step.kind == StepKind::measure) measure_piece(step, bite);
      if (step.kind == StepKind::encode) encode_piece(step, bite);
      if (step.kind == StepKind::decode) decode_piece(step, bite);
      elements += piece.elements;
    }
  }
  return true;
}

kernels::CodecInput Buffers::input_of(const plan::Step& step, const Bite& bite) const {
  const uint32_t cell = step.src_begin + bite.cell;
  const std::byte* base = at({step.src_region, cell, cell + 1});
  // Feedback is of the caller's own elements, not of sums that are encoded anew.
  const bool fed_back = coding_.residual != nullptr && step.src_region == plan::kIn;
  return {.data = base + bite.piece.begin * element_bytes_,
          .type = type_,
          .stride = bite.piece.stride,
          .count = bite.count,
          .residual = fed_back ? coding_.residual.get() + binding_.offsets[cell] + bite.piece.begin : nullptr};
}

void Buffers::measure_piece(const plan::Step& step, const Bite& bite) {
  const uint32_t cell = step.dst_begin + bite.cell;
  auto* work = reinterpret_cast<float*>(core_.coding.data());
  const float scale = kernels::thc_measure(core_.kernels, input_of(step, bite), bite.piece.elements, work);
  std::memcpy(at({step.dst_region, cell, cell + 1}) + bite.index * sizeof(float), &scale, sizeof(float));
}

float Buffers::scale_of(const Chunk& scales, const Bite& bite) const {
  const uint32_t cell = scales.begin + bite.cell;
  float scale = 0;
  std::memcpy(&scale, at({scales.region, cell, cell + 1}) + bite.index * sizeof(float), sizeof(float));
  return scale;
}

void Buffers::encode_piece(const plan::Step& step, const Bite& bite) {
  const uint32_t cell = step.dst_begin + bite.cell;
  const codec::Codec& codec = *plan_->codec;
  const uint32_t room = plan_->regions[step.dst_region].summands;
  std::byte* dst = at({step.dst_region, cell, cell + 1}) + codec.encoded_bytes(codec, bite.piece.first, room);
  const uint64_t place = position_of(cell, bite.piece);
  auto* work = reinterpret_cast<float*>(core_.coding.data());
  float* const copy = work + kWorkFloats;
  float* const lost = copy + kWorkFloats;

  kernels::CodecInput in = input_of(step, bite);
  const uint64_t cell_elements = binding_.elements(cell, cell + 1), end = bite.piece.begin + bite.piece.elements;
  if (in.stride == 1 && end + bite.piece.elements <= cell_elements)
    in.next = static_cast<const std::byte*>(in.data) + bite.piece.elements * element_bytes_;
  auto* residual = const_cast<float*>(in.residual);  // the caller's, to be read and written
  const bool sampled = place / codec.block_elements % kSampledPieces == 0 && coding_.report != nullptr;
  if (sampled) {
    core_.kernels.thc.load(copy, in, bite.piece.elements);
    coded_.energy += energy(copy, bite.count, 1);
    if (residual == nullptr) {
      in = {.data = copy, .type = DataType::float32, .stride = 1, .count = bite.count};
      residual = lost;
    }
  }
  if (codec.thc != nullptr) {
    const kernels::ThcScales scales = {.own = scale_of(step.own(), bite), .joined = scale_of(step.src2(), bite)};
    kernels::thc_encode(core_.kernels, dst, room, in, residual, *codec.thc, codec_key(),
                        {.position = place, .elements = bite.piece.elements}, scales, work);
  } else {
    kernels::baseline_encode(core_.kernels, codec, dst, in, residual, codec_key(), place, work);
  }
  if (sampled) coded_.error += energy(residual, bite.count, in.stride);
}

void Buffers::decode_piece(const plan::Step& step, const Bite& bite) {
  const uint32_t cell = step.dst_begin + bite.cell, src_cell = step.src_begin + bite.cell;
  const codec::Codec& codec = *plan_->codec;
  const uint32_t room = plan_->regions[step.src_region].summands;
  const std::byte* src = at({step.src_region, src_cell, src_cell + 1}) + codec.encoded_bytes(codec, bite.piece.first, room);
  const kernels::CodecOutput out = {.data = at({step.dst_region, cell, cell + 1}) + bite.piece.begin * element_bytes_,
                                    .type = type_,
                                    .stride = bite.piece.stride,
                                    .count = bite.count,
                                    .past_caches = past_caches(bite.count * element_bytes_)};
  auto* work = reinterpret_cast<float*>(core_.coding.data());
  if (codec.thc == nullptr) return kernels::baseline_decode(core_.kernels, codec, out, src, work);
  const uint32_t multiplier = (step.flags & plan::kMapOut) != 0 ? 1 : step.summands;
  kernels::thc_decode(core_.kernels, out, src, room, step.summands, multiplier, *codec.thc, codec_key(),
                      {.position = position_of(src_cell, bite.piece), .elements = bite.piece.elements}, scale_of(step.src2(), bite), work);
}

// Sums of encodings are sums of units, whatever pieces and cells they belong to.
bool Buffers::accumulate_units(const plan::Step& step, uint64_t& done) {
  const auto room_of = [&](uint16_t region) { return uint32_t{plan_->regions[region].summands}; };
  const codec::Codec& codec = *plan_->codec;
  const auto unit_bytes = [&](uint16_t region) { return codec.encoded_bytes(codec, isthmus::codec::kUnitElements, room_of(region)); };
  const uint64_t total = bytes_of(step.dst()) / unit_bytes(step.dst_region);
  const uint64_t units = std::min<uint64_t>(total - done, 4 * kBiteElements / isthmus::codec::kUnitElements);
  const auto place = [&](const Chunk& chunk) { return reinterpret_cast<uint8_t*>(at(chunk) + done * unit_bytes(chunk.region)); };
  core_.kernels.thc.accumulate(place(step.dst()), room_of(step.dst_region), place(step.src()), room_of(step.src_region), place(step.src2()),
                               room_of(step.src2_region), units, *codec.thc);
  done += units;
  return done == total;
}

// What a message brings is joined with what is here: scales by their maximum as integers, encodings by adding them.
void Buffers::join_coded(const plan::Step& step, std::byte* dst, const std::byte* a, const std::byte* b, uint64_t bytes) {
  const plan::Region& region = plan_->regions[step.dst_region];
  if (region.layout == Layout::scale) {
    const auto kernel = core_.kernels.reduce[static_cast<size_t>(DataType::uint32)][static_cast<size_t>(ReduceOp::max)];
    return kernel(dst, a, b, bytes / sizeof(float), maps_[0]);
  }
  const auto* left = reinterpret_cast<const uint8_t*>(a);
  const auto* right = reinterpret_cast<const uint8_t*>(b);
  const uint32_t left_room = plan_->regions[step.src_region].summands;
  core_.kernels.thc.accumulate(reinterpret_cast<uint8_t*>(dst), region.summands, left, left_room, right, region.summands,
                               bytes / atom_bytes(step), *plan_->codec->thc);
}

void Buffers::report(uint64_t sent_bytes) {
  coded_.calls = 1;
  coded_.sent_bytes = sent_bytes;
  CodedCalls& told = *coding_.report;
  told.last = coded_;
  told.all.calls += 1;
  told.all.sent_bytes += sent_bytes;
  told.all.energy += coded_.energy;
  told.all.error += coded_.error;
}

}  // namespace isthmus::exec
