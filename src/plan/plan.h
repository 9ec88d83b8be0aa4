// SPDX-License-Identifier: Apache-2.0
// The plan: one rank's part of a collective as data. Written by plan/builder.h, read by the executor (exec/), the symbolic and
// deadlock checkers, the cost walk and the printer. Pure values; only bind() can be given something it must refuse, and
// it asserts, since exec/ has validated counts before.
//
// How elements map to memory. A plan has ONE grid over the collective's element space:
//   allreduce, broadcast, reduce      one block of `count` elements
//   reduce_scatter, allgather         `ranks` blocks of `count` elements each, block r belonging to rank r
//   alltoall                          as many: block r of `in` is for rank r, block r of `out` from rank r
// Every block is split evenly into `cells_per_block` cells. A *region* is a window of consecutive cells that lies contiguously
// in one buffer; a *chunk* is a run of consecutive cells of one region. Regions 0 and 1 are the caller's `in` and `out`.
// In an in-place plan the same cell index of `in` and `out` is the same memory. A scratch region mirrors a window of
// cells, so its size follows from the same table. Binding a call computes that one table, element offsets per cell; the plan
// itself never knows the count.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "codec/codec.h"

namespace isthmus::plan {

enum class Place : uint8_t {
  in,       ///< the caller's send buffer
  out,      ///< the caller's receive buffer
  scratch,  ///< memory the executor lends for the call
  user,     ///< one buffer per region, bound one by one (grouped send/recv)
};

enum class Layout : uint8_t {
  data,     ///< elements of the call's type
  encoded,  ///< the plan's codec, up to `summands` encodings added
  scale,    ///< the codec's scales of the same cells (float32)
};

/// A window of grid cells, contiguous in one buffer.
struct Region {
  Place place = Place::scratch;
  Layout layout = Layout::data;
  uint16_t summands = 1;  ///< encoded layout: how many encodings the cells must have room for
  uint32_t begin = 0;     ///< first grid cell
  uint32_t end = 0;       ///< one past the last
  friend bool operator==(const Region&, const Region&) = default;
};

inline constexpr uint16_t kIn = 0;   ///< region index of the send buffer
inline constexpr uint16_t kOut = 1;  ///< region index of the receive buffer
inline constexpr uint16_t kNoRegion = UINT16_MAX;

/// Cells [begin, end) of one region, in grid numbering. Empty chunks are dropped by the builder.
struct Chunk {
  uint16_t region = kNoRegion;
  uint32_t begin = 0;
  uint32_t end = 0;
  [[nodiscard]] uint32_t cells() const { return end - begin; }
  [[nodiscard]] bool valid() const { return region != kNoRegion; }
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

enum class StepKind : uint8_t {
  send,         ///< src -> peer. Complete when the source may be overwritten.
  recv,         ///< peer -> dst. May land once its dependencies are complete.
  recv_reduce,  ///< dst = src (op) message. Receives into inbox `slot` at once; the apply waits for the dependencies.
  copy,         ///< dst = src
  reduce,       ///< dst = src (op) src2
  map,          ///< dst = f(src): kMapIn applies the rank's scalar (PreMulSum), kMapOut divides (avg)
  encode,       ///< dst(encoded) = encode(src data, src2 scale and the rank's own scale if the codec needs one)
  accumulate,   ///< dst(encoded) = src(encoded) + src2(encoded)
  decode,       ///< dst(data) = decode(src encoded holding `summands` encodings, src2 scale)
  measure,      ///< dst(scale) = the scales of src(data)
  native,       ///< an opaque operation that reads src, writes dst
};
inline constexpr int kStepKinds = 11;
std::string_view name_of(StepKind kind);

enum StepFlag : uint8_t {
  kMapIn = 1,        ///< the element map of `in` (PreMulSum's scalar) applies to src when it is read
  kMapOut = 2,       ///< the final map (avg's division) applies before dst is stored; see divides_when_storing()
  kReadInPlace = 4,  ///< send: the peer may read src where it lies; the step completes when the peer has applied it
};

inline constexpr uint16_t kNoSlot = UINT16_MAX;
inline constexpr uint32_t kNoStep = UINT32_MAX;

/// One operation. All operands of a step have the same number of cells, at the same positions within their blocks, so their
/// sizes agree for every count. Peers are communicator ranks. Kept small: a ring over 4096 ranks has 16380 of these.
struct Step {
  StepKind kind = StepKind::copy;
  ReduceOp op = ReduceOp::sum;      ///< recv_reduce, reduce: sum, prod, max or min (avg is sum with kMapOut)
  uint8_t flags = 0;                ///< StepFlag bits
  uint8_t level = 0;                ///< hierarchy level, for printing and pricing
  uint16_t slot = kNoSlot;          ///< recv_reduce: inbox slot
  uint16_t summands = 0;            ///< decode: how many encodings src holds
  uint16_t own_region = kNoRegion;  ///< encode: what the rank itself has measured of src, whose cells it has
  uint16_t site = 0;                ///< index into Plan::sites, where the algorithm emitted the step
  uint16_t deps_count = 0;          ///< length of its list in Plan::deps
  uint16_t dst_region = kNoRegion, src_region = kNoRegion, src2_region = kNoRegion;
  uint32_t dst_begin = 0, src_begin = 0, src2_begin = 0;
  uint32_t cells = 0;
  int32_t peer = -1;              ///< send, recv, recv_reduce
  uint32_t ordinal = 0;           ///< messages: number within (sender, receiver) of this plan, from 0
  uint32_t slot_after = kNoStep;  ///< recv_reduce: the step whose completion frees the slot (kNoStep: free from the start)
  uint32_t deps_begin = 0;        ///< start in Plan::deps: steps that must be complete before this one touches dst or src

  [[nodiscard]] Chunk dst() const { return {dst_region, dst_begin, dst_begin + cells}; }
  [[nodiscard]] Chunk src() const { return {src_region, src_begin, src_begin + cells}; }
  [[nodiscard]] Chunk src2() const { return {src2_region, src2_begin, src2_begin + cells}; }
  [[nodiscard]] Chunk own() const { return own_region == kNoRegion ? Chunk{} : Chunk{own_region, src_begin, src_begin + cells}; }
  [[nodiscard]] bool is_message() const { return kind <= StepKind::recv_reduce; }
  /// What the codec does.
  [[nodiscard]] bool codes() const { return kind >= StepKind::encode && kind <= StepKind::measure; }
  [[nodiscard]] bool receives() const { return kind == StepKind::recv || kind == StepKind::recv_reduce; }
  friend bool operator==(const Step&, const Step&) = default;
};
static_assert(sizeof(Step) == 52);

/// Where in the source a step was emitted.
struct Site {
  const char* file = "";
  int line = 0;
};

/// The grid: `blocks` equal blocks of `count` elements, each split into `cells_per_block` cells whose borders are multiples of
/// `align` elements (except the last).
struct Grid {
  uint32_t blocks = 1;
  uint32_t cells_per_block = 1;
  uint32_t align = 1;
  [[nodiscard]] uint32_t cells() const { return blocks * cells_per_block; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Messages exchanged with one peer, so that the executor can size its tables before the first step.
struct PeerTraffic {
  int32_t peer = -1;
  uint32_t sends = 0;  ///< number of messages to the peer
  uint32_t recvs = 0;  ///< number of messages from the peer
};

/// One rank's plan. `steps` are in an order in which their dependencies come first.
struct Plan {
  std::string name;  ///< algorithm name, for logs
  Collective collective = Collective::allreduce;
  int32_t rank = 0;        ///< communicator rank
  int32_t ranks = 1;       ///< size of the communicator
  int32_t group_size = 1;  ///< ranks that take part: avg's divisor
  int32_t root = -1;       ///< communicator rank, -1 where the collective has none
  bool in_place = false;
  ReduceOp op = ReduceOp::sum;  ///< as the caller asked (avg stays avg)
  bool map_in = false;          ///< planned for a PreMulSum scalar
  const codec::Codec* codec = nullptr;
  Grid grid;
  std::vector<Region> regions;  ///< [0] in, [1] out, then scratch or user regions
  std::vector<Step> steps;
  std::vector<uint32_t> deps;              ///< predecessor lists, by Step::deps_begin/count
  std::vector<uint32_t> successors;        ///< successor lists: successors[successors_begin[i] .. successors_begin[i+1])
  std::vector<uint32_t> successors_begin;  ///< steps.size() + 1 entries
  std::vector<Region> slots;               ///< the inbox: each slot is a scratch window [0, n) no smaller than any message it holds
  std::vector<PeerTraffic> peers;          ///< by first appearance
  std::vector<Site> sites;

  [[nodiscard]] std::span<const uint32_t> deps_of(const Step& step) const { return {deps.data() + step.deps_begin, step.deps_count}; }
  [[nodiscard]] std::span<const uint32_t> successors_of(uint32_t step) const {
    return {successors.data() + successors_begin[step], successors_begin[step + 1] - successors_begin[step]};
  }
  /// Heap and object bytes, for the plan cache's limit.
  [[nodiscard]] size_t bytes() const;
  /// Hash over everything that must agree between runs of one build (not sites, not names).
  [[nodiscard]] uint64_t hash() const;
};

/// Whether the step can apply the final map (kMapOut) to what it stores. A decode of everybody's sum divides for nothing: it does not
/// multiply the average that sums decode to. Other decodes cannot.
bool divides_when_storing(const Plan& plan, const Step& step);

/// A call's table: grid cell -> element offset from the start of the element space.
struct Binding {
  uint64_t count = 0;             ///< elements per block
  std::vector<uint64_t> offsets;  ///< grid.cells() + 1 entries

  [[nodiscard]] uint64_t elements(uint32_t begin, uint32_t end) const { return offsets[end] - offsets[begin]; }
  [[nodiscard]] uint64_t elements(const Chunk& chunk) const { return elements(chunk.begin, chunk.end); }
};

/// Fills `binding` for `count` elements per block; allocates only when `binding` has never been as large.
void bind(const Grid& grid, uint64_t count, Binding& binding);

/// First element of cell `cell` (0..cells) within a block of `count` elements: the even split used by bind(). Bigger cells
/// come first, so the first n cells hold at least as much as any other n consecutive ones.
uint64_t split_point(uint64_t count, uint32_t cells, uint32_t align, uint32_t cell);

/// Bytes of cells [begin, end) in that region (codec layouts are summed cell by cell).
uint64_t region_bytes(const Plan& plan, const Region& region, const Binding& binding, size_t element_size, uint32_t begin, uint32_t end);

/// Byte offset of a chunk from the start of its region.
inline uint64_t chunk_offset_bytes(const Plan& plan, const Chunk& chunk, const Binding& binding, size_t element_size) {
  const Region& region = plan.regions[chunk.region];
  if (region.layout == Layout::data) return binding.elements(region.begin, chunk.begin) * element_size;
  return region_bytes(plan, region, binding, element_size, region.begin, chunk.begin);
}

inline uint64_t chunk_bytes(const Plan& plan, const Chunk& chunk, const Binding& binding, size_t element_size) {
  const Region& region = plan.regions[chunk.region];
  if (region.layout == Layout::data) return binding.elements(chunk) * element_size;
  return region_bytes(plan, region, binding, element_size, chunk.begin, chunk.end);
}

}  // namespace isthmus::plan
