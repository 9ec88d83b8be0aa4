// SPDX-License-Identifier: Apache-2.0
// The builder's grid, chunks and steps. Called by collectives/ through Algorithm::emit. A wrong call is remembered with the
// algorithm's source line and returned by finish(). The element maps of PreMulSum and avg are in builder_maps.cc.
#include "plan/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "plan/bounds.h"

namespace isthmus::plan {

namespace {

/// Grid blocks that the collective is defined over.
uint32_t blocks_of(const Shape& shape) { return is_by_rank(shape.collective) ? static_cast<uint32_t>(shape.group.size) : 1; }

std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

std::string what_is_wrong(const Shape& shape) {
  const Group& group = shape.group;
  if (group.size < 1 || group.position < 0 || group.position >= group.size) {
    return fmt::format("position {} is not in a group of {}", group.position, group.size);
  }
  if (!group.ranks.empty() && group.ranks.size() != static_cast<size_t>(group.size)) {
    return fmt::format("the group lists {} ranks but has size {}", group.ranks.size(), group.size);
  }
  if (shape.sites.size() % static_cast<size_t>(group.size) != 0) {
    return fmt::format("{} numbers of sites for a group of {}: each level needs one for each rank", shape.sites.size(), group.size);
  }
  if (is_rooted(shape.collective) && (shape.root < 0 || shape.root >= group.size)) {
    return fmt::format("{} needs a root in 0..{}, not {}", isthmus::name_of(shape.collective), group.size - 1, shape.root);
  }
  if (shape.in_place && !may_be_in_place(shape.collective)) {
    return fmt::format("{} has no in-place form", isthmus::name_of(shape.collective));
  }
  return {};
}

std::string words(const Plan& plan, const Chunk& chunk) {
  if (!chunk.valid() || chunk.region >= plan.regions.size()) return "(no chunk)";
  const std::string place = chunk.region == kIn ? "in" : chunk.region == kOut ? "out" : fmt::format("scratch {}", chunk.region);
  return fmt::format("{}[{}..{})", place, chunk.begin, chunk.end);
}

}  // namespace

Builder::Builder(const Shape& shape, std::string_view name, int32_t ranks) : shape_(shape) {
  const Group& group = shape_.group;
  plan_.name = name;
  plan_.collective = shape.collective;
  plan_.ranks = ranks > 0 ? ranks : group.size;
  plan_.group_size = group.size;
  plan_.in_place = shape.in_place;
  plan_.op = shape.op;
  plan_.map_in = shape.map_in;
  if (std::string wrong = what_is_wrong(shape); !wrong.empty()) {
    fail(std::move(wrong));
    return;
  }
  plan_.rank = group.rank_at(group.position);
  plan_.root = is_rooted(shape.collective) ? group.rank_at(shape.root) : -1;
  plan_.grid.blocks = blocks_of(shape);
  traffic_at_.resize(static_cast<size_t>(plan_.ranks), 0);
}

// --- the grid --------------------------------------------------------------------------------------------------------------

void Builder::split(uint32_t cells_per_block, uint32_t align) {
  if (!error_.ok()) return;
  if (windows_open_) return fail("split() must come before the first chunk");
  if (cells_per_block == 0 || align == 0) return fail("split() needs at least one cell and an alignment of at least one element");
  if (uint64_t{cells_per_block} * plan_.grid.blocks > kMaxCells) {
    return fail(fmt::format("{} blocks of {} cells exceed the limit of {} cells", plan_.grid.blocks, cells_per_block, kMaxCells));
  }
  plan_.grid.cells_per_block = cells_per_block;
  plan_.grid.align = align;
}

/// Regions 0 and 1. Which part of the grid they show is the collective's definition: gathers have their own block in `in`,
/// scatters in `out`, and only roots have the buffer that the others lack.
void Builder::open_windows() {
  if (windows_open_) return;
  windows_open_ = true;
  const uint32_t per_block = plan_.grid.cells_per_block;
  const auto own = static_cast<uint32_t>(shape_.group.position) * per_block;
  const bool is_root = shape_.group.position == shape_.root;
  Region in{.place = Place::in, .begin = 0, .end = cells()};
  Region out{.place = Place::out, .begin = 0, .end = cells()};
  switch (shape_.collective) {
    case Collective::allgather:
      in = {.place = Place::in, .begin = own, .end = own + per_block};
      break;
    case Collective::reduce_scatter:
      out = {.place = Place::out, .begin = own, .end = own + per_block};
      break;
    case Collective::broadcast:
      in.end = is_root ? in.end : 0;
      break;
    case Collective::reduce:
      out.end = is_root ? out.end : 0;
      break;
    default:
      break;
  }
  add_region(in);
  add_region(out);
  plan_.steps.reserve(size_t{4} * cells());  // what a ring needs: every cell comes and goes twice
  plan_.deps.reserve(size_t{3} * cells());
  tracker_.reserve(size_t{4} * cells());
  if (plan_.map_in) {
    raw_.assign(cells(), true);
    mirrors_.assign(cells(), kNoRegion);
  }
}

uint16_t Builder::add_region(const Region& region) {
  plan_.regions.push_back(region);
  memory_.add(region, plan_.in_place, cells());
  tracker_.resize(memory_.cells());
  return static_cast<uint16_t>(plan_.regions.size() - 1);
}

// --- chunks ----------------------------------------------------------------------------------------------------------------

Chunk Builder::window(uint16_t region, uint32_t begin, uint32_t end) {
  if (!error_.ok()) return {};
  open_windows();
  const Region& whole = plan_.regions[region];
  if (begin == end && begin <= cells()) return {region, begin, end};
  if (begin <= end && begin >= whole.begin && end <= whole.end) return {region, begin, end};
  const char* name = region == kIn ? "in" : region == kOut ? "out" : "the chunk";
  fail(fmt::format("cells [{}..{}) are not in {}, which has [{}..{})", begin, end, name, whole.begin, whole.end));
  return {};
}

Chunk Builder::in(uint32_t begin, uint32_t end) { return window(kIn, begin, end); }
Chunk Builder::out(uint32_t begin, uint32_t end) { return window(kOut, begin, end); }

Chunk Builder::scratch(uint32_t begin, uint32_t end, Layout layout, uint16_t summands) {
  if (!error_.ok()) return {};
  open_windows();
  if (begin > end || end > cells()) {
    fail(fmt::format("scratch cells [{}..{}) are not in the grid of {} cells", begin, end, cells()));
    return {};
  }
  if (plan_.regions.size() >= kMaxRegions) {
    fail(fmt::format("more than {} regions", kMaxRegions));
    return {};
  }
  const Region region{.place = Place::scratch, .layout = layout, .summands = summands, .begin = begin, .end = end};
  return {add_region(region), begin, end};
}

Chunk Builder::part(const Chunk& whole, uint32_t begin, uint32_t end) {
  if (!error_.ok() || !whole.valid()) return {};
  if (begin >= whole.begin && begin <= end && end <= whole.end) return {whole.region, begin, end};
  fail(fmt::format("cells [{}..{}) are not in {}", begin, end, words(plan_, whole)));
  return {};
}

Chunk Builder::partial(const Chunk& work, uint32_t begin, uint32_t end) {
  const Chunk chunk = part(work, begin, end);
  if (!chunk.valid()) return {};
  const uint32_t written = tracker_.written(memory_.first(chunk), chunk.cells());
  if (written == chunk.cells()) return chunk;
  if (written == 0) return in(begin, end);
  fail(fmt::format("only {} cells of {} have been written", written, words(plan_, chunk)));
  return {};
}

// --- steps -----------------------------------------------------------------------------------------------------------------

void Builder::set_dst(Step& step, const Chunk& chunk) {
  step.dst_region = chunk.region;
  step.dst_begin = chunk.begin;
  step.cells = chunk.cells();
}

void Builder::set_src(Step& step, const Chunk& chunk) {
  step.src_region = chunk.region;
  step.src_begin = chunk.begin;
  step.cells = chunk.cells();
}

void Builder::set_src2(Step& step, const Chunk& chunk) {
  step.src2_region = chunk.region;
  step.src2_begin = chunk.begin;
}

/// False if the step is to be skipped: after an error, for an empty chunk, or (a new error) for one of another layout.
bool Builder::readable(const Chunk& src, Layout layout, Here here) {
  if (!error_.ok()) return false;
  if (!src.valid()) return fail_at(here, "a source chunk is missing"), false;
  if (region_of(src).layout != layout) return fail_at(here, fmt::format("{} has another layout", words(plan_, src))), false;
  return src.cells() > 0;
}

bool Builder::writable(const Chunk& dst, Layout layout, Here here) {
  if (!error_.ok()) return false;
  if (!dst.valid()) return fail_at(here, "a destination chunk is missing"), false;
  if (dst.region == kIn) return fail_at(here, fmt::format("{} is the caller's and must not be written", words(plan_, dst))), false;
  if (region_of(dst).layout != layout) return fail_at(here, fmt::format("{} has another layout", words(plan_, dst))), false;
  return dst.cells() > 0;
}

/// Whether two chunks have the same sizes for every count: as many cells, at the same place within their blocks.
bool Builder::pair(const Chunk& a, const Chunk& b, Here here) {
  const uint32_t per_block = plan_.grid.cells_per_block;
  if (a.cells() == b.cells() && (a.begin == b.begin || a.begin % per_block == b.begin % per_block)) return true;
  fail_at(here, fmt::format("{} and {} differ in size or place within a block", words(plan_, a), words(plan_, b)));
  return false;
}

void Builder::send(int32_t to, Chunk src, Here here) {
  if (!src.valid() || !readable(src, region_of(src).layout, here)) return;
  src = mapped(src, here);
  Step& step = begin_step(StepKind::send, here);
  step.flags = kReadInPlace;
  set_src(step, src);
  address(step, to, here);
  end_step(step);
}

void Builder::recv(int32_t from, Chunk dst, Here here) {
  if (!dst.valid() || !writable(dst, region_of(dst).layout, here)) return;
  Step& step = begin_step(StepKind::recv, here);
  set_dst(step, dst);
  address(step, from, here);
  end_step(step);
}

void Builder::recv_reduce(int32_t from, Chunk dst, Chunk local, Here here) {
  if (dst.valid() && error_.ok() && region_of(dst).layout == Layout::scale) {
    return fail_at(here, "scales are exchanged with recv_reduce_scale()");
  }
  receive_and_reduce(from, dst, local, arithmetic_op(), here);
}

void Builder::recv_reduce_scale(int32_t from, Chunk dst, Chunk local, Here here) {
  if (dst.valid() && error_.ok() && region_of(dst).layout != Layout::scale) {
    return fail_at(here, fmt::format("{} does not hold scales", words(plan_, dst)));
  }
  receive_and_reduce(from, dst, local, ReduceOp::max, here);
}

void Builder::receive_and_reduce(int32_t from, Chunk dst, Chunk local, ReduceOp op, Here here) {
  if (!dst.valid() || !writable(dst, region_of(dst).layout, here)) return;
  if (!readable(local, region_of(dst).layout, here) || !pair(dst, local, here)) return;
  const uint8_t flags = map_when_read(local, here);
  Step& step = begin_step(StepKind::recv_reduce, here);
  step.op = op;
  step.flags = flags;
  set_dst(step, dst);
  set_src(step, local);
  assign_slot(step);
  address(step, from, here);
  end_step(step);
}

void Builder::copy(Chunk dst, Chunk src, Here here) {
  if (!dst.valid() || !writable(dst, region_of(dst).layout, here)) return;
  if (!readable(src, region_of(dst).layout, here) || !pair(dst, src, here)) return;
  if (region_of(dst).layout == Layout::encoded && region_of(dst).summands != region_of(src).summands) {
    return fail_at(here, fmt::format("{} and {} have room for different numbers of encodings", words(plan_, dst), words(plan_, src)));
  }
  if (same_memory(dst, src)) {
    if (is_raw(src)) map_in_place(src, here);
    return;
  }
  const uint8_t flags = map_when_read(src, here);
  local_step(StepKind::copy, flags, dst, src, Chunk{}, here);
}

void Builder::reduce(Chunk dst, Chunk a, Chunk b, Here here) {
  if (!writable(dst, Layout::data, here) || !readable(a, Layout::data, here) || !readable(b, Layout::data, here)) return;
  if (!pair(dst, a, here) || !pair(dst, b, here)) return;
  if (is_raw(b) && !is_raw(a)) std::swap(a, b);  // only the first operand can be mapped when it is read
  if (is_raw(b)) b = mapped(b, here);
  const uint8_t flags = map_when_read(a, here);
  local_step(StepKind::reduce, flags, dst, a, b, here);
}

void Builder::measure(Chunk scale, Chunk data, Here here) {
  if (!writable(scale, Layout::scale, here) || !readable(data, Layout::data, here) || !pair(scale, data, here)) return;
  data = mapped(data, here);
  local_step(StepKind::measure, 0, scale, data, Chunk{}, here);
}

void Builder::encode(Chunk encoded, Chunk data, Chunk scale, Chunk own, Here here) {
  if (!writable(encoded, Layout::encoded, here) || !readable(data, Layout::data, here) || !pair(encoded, data, here)) return;
  const bool scaled = plan_.codec != nullptr && plan_.codec->needs_scale;
  if (scaled && (!readable(scale, Layout::scale, here) || !pair(encoded, scale, here) || !readable(own, Layout::scale, here))) return;
  if (scaled && (own.begin != data.begin || own.end != data.end)) {
    return fail_at(here, fmt::format("{} are not the scales of {}", words(plan_, own), words(plan_, data)));
  }
  data = mapped(data, here);
  local_step(StepKind::encode, 0, encoded, data, scaled ? scale : Chunk{}, here, scaled ? own.region : kNoRegion);
}

void Builder::accumulate(Chunk encoded, Chunk a, Chunk b, Here here) {
  if (!writable(encoded, Layout::encoded, here) || !readable(a, Layout::encoded, here) || !readable(b, Layout::encoded, here)) return;
  if (!pair(encoded, a, here) || !pair(encoded, b, here)) return;
  local_step(StepKind::accumulate, 0, encoded, a, b, here);
}

void Builder::decode(Chunk data, Chunk encoded, Chunk scale, uint16_t summands, Here here) {
  if (!writable(data, Layout::data, here) || !readable(encoded, Layout::encoded, here) || !pair(data, encoded, here)) return;
  const bool scaled = plan_.codec != nullptr && plan_.codec->needs_scale;
  if (scaled && (!readable(scale, Layout::scale, here) || !pair(data, scale, here))) return;
  local_step(StepKind::decode, 0, data, encoded, scaled ? scale : Chunk{}, here);
  if (error_.ok()) plan_.steps.back().summands = summands;
}

// --- what every step goes through ------------------------------------------------------------------------------------------

Step& Builder::begin_step(StepKind kind, Here here) {
  Step& step = plan_.steps.emplace_back();
  step.kind = kind;
  step.level = level_;
  step.site = site_of(here);
  return step;
}

void Builder::end_step(Step& step) {
  add_dependencies(step);
  if (plan_.map_in && step.dst_region == kOut && plan_.in_place) {
    std::fill_n(raw_.begin() + step.dst_begin, step.cells, false);  // the caller's elements are gone
  }
}

/// A step without a peer. `src2` may be invalid: none.
void Builder::local_step(StepKind kind, uint8_t flags, const Chunk& dst, const Chunk& src, const Chunk& src2, Here here,
                         uint16_t own_region) {
  if (!error_.ok()) return;
  Step& step = begin_step(kind, here);
  step.own_region = own_region;
  if (kind == StepKind::reduce) step.op = arithmetic_op();
  step.flags = flags;
  set_dst(step, dst);
  set_src(step, src);
  if (src2.valid()) set_src2(step, src2);
  end_step(step);
}

void Builder::address(Step& step, int32_t peer, Here here) {
  if (peer < 0 || peer >= shape_.group.size || peer == shape_.group.position) {
    return fail_at(here, fmt::format("peer {} is not another member of a group of {}", peer, shape_.group.size));
  }
  step.peer = shape_.group.rank_at(peer);
  if (step.peer < 0 || step.peer >= plan_.ranks) {
    return fail_at(here, fmt::format("the group's position {} is rank {}, but there are {} ranks", peer, step.peer, plan_.ranks));
  }
  PeerTraffic& traffic = traffic_with(step.peer);
  step.ordinal = step.kind == StepKind::send ? traffic.sends++ : traffic.recvs++;
}

PeerTraffic& Builder::traffic_with(int32_t peer) {
  uint32_t& at = traffic_at_[static_cast<size_t>(peer)];
  if (at == 0) {
    plan_.peers.push_back({.peer = peer});
    at = static_cast<uint32_t>(plan_.peers.size());
  }
  return plan_.peers[at - 1];
}

/// A slot for the message that `step` receives. Slots are handed out in turn, so the one that is reused is the one whose
/// holder comes first in plan order.
void Builder::assign_slot(Step& step) {
  const Region& region = plan_.regions[step.dst_region];
  Inbox& inbox = inboxes_[static_cast<size_t>(region.layout)];
  if (inbox.slots.size() < kMaxInboxSlots) {
    inbox.slots.push_back(static_cast<uint16_t>(plan_.slots.size()));
    plan_.slots.push_back({.place = Place::scratch, .layout = region.layout, .summands = 0, .begin = 0, .end = 0});
    slot_holder_.push_back(kNoStep);
  }
  step.slot = inbox.slots[inbox.next];
  inbox.next = (inbox.next + 1) % kMaxInboxSlots;
  Region& slot = plan_.slots[step.slot];
  slot.summands = std::max(slot.summands, region.summands);
  slot.end = std::max(slot.end, step.cells);
  step.slot_after = slot_holder_[step.slot];
  slot_holder_[step.slot] = static_cast<uint32_t>(plan_.steps.size() - 1);
}

void Builder::add_dependencies(Step& step) {
  step.deps_begin = static_cast<uint32_t>(plan_.deps.size());
  tracker_.begin(static_cast<uint32_t>(plan_.steps.size() - 1), plan_.deps);
  if (step.src_region != kNoRegion) tracker_.read(memory_.first(step.src()), step.cells);
  if (step.src2_region != kNoRegion) tracker_.read(memory_.first(step.src2()), step.cells);
  if (step.own_region != kNoRegion) tracker_.read(memory_.first(step.own()), step.cells);
  if (step.dst_region != kNoRegion) tracker_.write(memory_.first(step.dst()), step.cells);
  const size_t found = plan_.deps.size() - step.deps_begin;
  step.deps_count = static_cast<uint16_t>(std::min(found, kMaxDependencies));
  if (found > kMaxDependencies) fail(fmt::format("step {} waits for more than {} others", plan_.steps.size() - 1, kMaxDependencies));
  for (const uint32_t before : plan_.deps_of(step)) {
    if (!may_follow_read_in_place(plan_.steps[before], step)) plan_.steps[before].flags &= static_cast<uint8_t>(~kReadInPlace);
  }
}

/// Whether `next`, which overwrites what `send` sends, may wait until the peer has applied it: the peer must not wait for `next`.
/// A plain recv is safe, since it brings what the peers made after they had read ours. An exchange (both write what they send) is not,
/// nor is its round of several ranks, where the messages carry equal numbers. In a ring that reuses a buffer some rounds later, each
/// apply waits for sends with smaller numbers than its own, so the chain of waits ends. The deadlock checker proves every algorithm.
bool Builder::may_follow_read_in_place(const Step& send, const Step& next) {
  if (next.kind == StepKind::recv) return true;
  return next.kind == StepKind::recv_reduce && next.peer != send.peer && next.ordinal > send.ordinal;
}

uint16_t Builder::site_of(Here here) {
  const RecentSite& recent = recent_sites_[static_cast<size_t>(here.line) % recent_sites_.size()];
  return recent.line == here.line && recent.file == here.file ? recent.index : add_site(here);
}

uint16_t Builder::add_site(Here here) {
  auto& sites = plan_.sites;
  const auto found =
      std::find_if(sites.begin(), sites.end(), [&](const Site& site) { return site.line == here.line && site.file == here.file; });
  const auto index = static_cast<uint16_t>(found - sites.begin());
  if (found == sites.end()) sites.push_back({here.file, here.line});
  recent_sites_[static_cast<size_t>(here.line) % recent_sites_.size()] = {here.file, here.line, index};
  return index;
}

// --- the end ---------------------------------------------------------------------------------------------------------------

namespace {

/// Plans stay in the cache, so memory beyond what they need is returned; a little is not worth a copy.
template <typename T>
void give_back_slack(std::vector<T>& items) {
  if (items.capacity() - items.size() > items.size() / 16) items.shrink_to_fit();
}

}  // namespace

void Builder::fail(std::string text) {
  if (!error_.ok()) return;
  error_ = internal_error(
      fmt::format("plan {}/{} of rank {} cannot be built: {}", isthmus::name_of(plan_.collective), plan_.name, plan_.rank, text));
}

void Builder::fail_at(Here here, std::string_view text) { fail(fmt::format("{}:{}: {}", base_name(here.file), here.line, text)); }

void Builder::link_successors() {
  // Counts go two places further, so that after adding up, begin[i + 1] is where step i's list starts; filling the list moves it to its
  // end, which is where begin[i + 1] belongs.
  const auto steps = static_cast<uint32_t>(plan_.steps.size());
  std::vector<uint32_t>& begin = plan_.successors_begin;
  begin.reserve(steps + size_t{2});
  begin.assign(steps + size_t{2}, 0);
  for (const uint32_t before : plan_.deps) ++begin[before + size_t{2}];
  for (size_t i = 2; i < begin.size(); ++i) begin[i] += begin[i - 1];
  plan_.successors.resize(plan_.deps.size());
  for (uint32_t i = 0; i < steps; ++i) {
    for (const uint32_t before : plan_.deps_of(plan_.steps[i])) plan_.successors[begin[before + size_t{1}]++] = i;
  }
  begin.pop_back();
}

Result<Plan> Builder::finish() {
  if (error_.ok()) open_windows();
  if (!error_.ok()) return error_;
  link_successors();
  give_back_slack(plan_.steps);
  give_back_slack(plan_.deps);
  give_back_slack(plan_.regions);
  return std::move(plan_);
}

}  // namespace isthmus::plan
