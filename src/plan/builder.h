// SPDX-License-Identifier: Apache-2.0
// The builder: what algorithms write against. It turns straight-line calls into a Plan: splits the grid, derives dependencies
// from last writer and readers per cell, numbers messages, assigns inbox slots, marks sends that the peer may read in place,
// and places the element maps of PreMulSum and avg. Called by collectives/ (through Algorithm::emit) and by comm/ for grouped
// send/recv. The first wrong call is kept and returned by finish(); later calls are ignored.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/algorithm.h"
#include "plan/dependencies.h"
#include "plan/memory_map.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// Source position of the caller (gcc 12 and clang 14 both have the builtins; <source_location> is not in clang 14's setup).
struct Here {
  const char* file;
  int line;
  static constexpr Here now(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

class Builder {
 public:
  /// A builder for one rank of `shape`, whose group's span must outlive it. `ranks` is the size of the communicator (peers are
  /// checked against it), 0: the group's.
  explicit Builder(const Shape& shape, std::string_view name = "", int32_t ranks = 0);

  // --- the grid ------------------------------------------------------------------------------------------------------------
  /// Splits every block into `cells_per_block` cells; must come before any chunk. Default: 1 cell, aligned to 1 element.
  void split(uint32_t cells_per_block, uint32_t align = 1);
  [[nodiscard]] uint32_t cells_per_block() const { return plan_.grid.cells_per_block; }
  [[nodiscard]] uint32_t cells() const { return plan_.grid.cells(); }

  // --- chunks --------------------------------------------------------------------------------------------------------------
  /// Cells [begin, end) of the caller's send buffer. allgather: only the own block exists in `in`.
  [[nodiscard]] Chunk in(uint32_t begin, uint32_t end);
  /// Cells [begin, end) of the caller's receive buffer. reduce_scatter: only the own block exists in `out`.
  [[nodiscard]] Chunk out(uint32_t begin, uint32_t end);
  /// A new scratch region that mirrors cells [begin, end): same sizes, own memory.
  [[nodiscard]] Chunk scratch(uint32_t begin, uint32_t end, Layout layout = Layout::data, uint16_t summands = 1);
  /// Part of a chunk, by grid cells (must lie inside it).
  [[nodiscard]] Chunk part(const Chunk& whole, uint32_t begin, uint32_t end);
  /// The running partial of cells [begin, end): `work` if these cells of it have been written, else `in`. All or none of the
  /// cells must have been written.
  [[nodiscard]] Chunk partial(const Chunk& work, uint32_t begin, uint32_t end);

  // --- steps: peers are positions in the group -----------------------------------------------------------------------------
  void send(int32_t to, Chunk src, Here here = Here::now());
  void recv(int32_t from, Chunk dst, Here here = Here::now());
  /// dst = local (op) message. `local` may be dst itself, or e.g. the same cells of `in`.
  void recv_reduce(int32_t from, Chunk dst, Chunk local, Here here = Here::now());
  void copy(Chunk dst, Chunk src, Here here = Here::now());
  void reduce(Chunk dst, Chunk a, Chunk b, Here here = Here::now());
  /// These cells now hold every contribution: applies avg's division (fused into the step that wrote them where that step
  /// wrote exactly this chunk and can divide, else as a map step). Does nothing for other ops. Must be called once per final cell.
  void complete(Chunk chunk, Here here = Here::now());
  void measure(Chunk scale, Chunk data, Here here = Here::now());
  /// `scale`: the group's; `own`: of the same cells as the data, what the rank measured of them. Neither if the codec needs no scales.
  void encode(Chunk encoded, Chunk data, Chunk scale, Chunk own, Here here = Here::now());
  void accumulate(Chunk encoded, Chunk a, Chunk b, Here here = Here::now());
  void decode(Chunk data, Chunk encoded, Chunk scale, uint16_t summands, Here here = Here::now());
  /// Chunks travel between regions of equal shape; the scale exchange reduces with max.
  void recv_reduce_scale(int32_t from, Chunk dst, Chunk local, Here here = Here::now());

  /// Hierarchy level that the following steps belong to.
  void level(uint8_t level) { level_ = level; }
  void use_codec(const codec::Codec* codec) { plan_.codec = codec; }
  /// Records a failure found by the algorithm itself ("needs a root").
  [[gnu::cold]] void fail(std::string text);

  /// The finished plan, or the first error.
  [[nodiscard]] Result<Plan> finish();

 private:
  // chunks and regions
  void open_windows();
  uint16_t add_region(const Region& region);
  [[nodiscard]] Chunk window(uint16_t region, uint32_t begin, uint32_t end);
  [[nodiscard]] const Region& region_of(const Chunk& chunk) const { return plan_.regions[chunk.region]; }
  [[nodiscard]] bool same_memory(const Chunk& a, const Chunk& b) const { return memory_.first(a) == memory_.first(b); }

  // steps
  static void set_dst(Step& step, const Chunk& chunk);
  static void set_src(Step& step, const Chunk& chunk);
  static void set_src2(Step& step, const Chunk& chunk);
  [[nodiscard]] bool readable(const Chunk& src, Layout layout, Here here);
  [[nodiscard]] bool writable(const Chunk& dst, Layout layout, Here here);
  [[nodiscard]] bool pair(const Chunk& a, const Chunk& b, Here here);
  void receive_and_reduce(int32_t from, Chunk dst, Chunk local, ReduceOp op, Here here);
  Step& begin_step(StepKind kind, Here here);
  void end_step(Step& step);
  void local_step(StepKind kind, uint8_t flags, const Chunk& dst, const Chunk& src, const Chunk& src2, Here here,
                  uint16_t own_region = kNoRegion);
  void address(Step& step, int32_t peer, Here here);
  void add_dependencies(Step& step);
  [[nodiscard]] static bool may_follow_read_in_place(const Step& send, const Step& next);
  void assign_slot(Step& step);
  uint16_t site_of(Here here);
  uint16_t add_site(Here here);
  PeerTraffic& traffic_with(int32_t peer);
  [[nodiscard]] ReduceOp arithmetic_op() const { return shape_.op == ReduceOp::avg ? ReduceOp::sum : shape_.op; }
  [[gnu::cold]] void fail_at(Here here, std::string_view text);

  // the element map of `in` (PreMulSum)
  [[nodiscard]] bool is_raw(const Chunk& src) const;
  [[nodiscard]] Chunk mapped(Chunk src, Here here);
  uint8_t map_when_read(Chunk& src, Here here);
  [[nodiscard]] Chunk mirror_of(const Chunk& src) const;
  void map_in_place(const Chunk& src, Here here);

  void link_successors();

  /// The inbox slots of one layout, handed out in turn.
  struct Inbox {
    std::vector<uint16_t> slots;
    size_t next = 0;
  };

  Plan plan_;
  Shape shape_;
  uint8_t level_ = 0;
  bool windows_open_ = false;
  Status error_;
  MemoryMap memory_;
  DependencyTracker tracker_;
  std::array<Inbox, 3> inboxes_;       ///< by Layout
  std::vector<uint32_t> slot_holder_;  ///< slot -> the last step that receives into it
  std::vector<uint32_t> traffic_at_;   ///< communicator rank -> 1 + index into Plan::peers, 0: none yet
  struct RecentSite {
    const char* file = nullptr;
    int line = 0;
    uint16_t index = 0;
  };
  std::array<RecentSite, 16> recent_sites_;  ///< some of Plan::sites, by source line
  std::vector<bool> raw_;                    ///< map_in: grid cell -> `in` still holds the caller's own, unmapped elements
  std::vector<uint16_t> mirrors_;            ///< map_in: grid cell -> region that holds its mapped copy
};

/// Builds one rank's plan with `algorithm`: checks its needs against the shape's group and codec, emits, finishes. `ranks` as in Builder.
Result<Plan> build(const Algorithm& algorithm, const Shape& shape, int32_t ranks = 0);

}  // namespace isthmus::plan
