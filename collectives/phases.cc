// SPDX-License-Identifier: Apache-2.0
// Phases over the builder: ring, direct, halving and doubling. See phases.h.
#include "collectives/phases.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace isthmus::collectives {

namespace {

const Chunk& share_at(Chunks shares, int32_t position) { return shares[static_cast<size_t>(position)]; }

/// Positions first, first + stride, ...: what a side of a halving consists of.
struct Line {
  int32_t first, stride, size;
  [[nodiscard]] int32_t at(int32_t index) const { return first + index * stride; }
  [[nodiscard]] int32_t last() const { return at(size - 1); }
  [[nodiscard]] int32_t index_of(int32_t position) const { return (position - first) / stride; }
  [[nodiscard]] bool contains(int32_t position) const {
    return position >= first && position <= last() && (position - first) % stride == 0;
  }
};

/// The sides of a halving, the larger one first.
std::pair<Line, Line> sides_of(const Line& line, Pairing pairing) {
  const int32_t larger = (line.size + 1) / 2, smaller = line.size / 2;
  if (pairing == Pairing::far) return {{line.first, line.stride, larger}, {line.at(larger), line.stride, smaller}};
  return {{line.first, 2 * line.stride, larger}, {line.at(1), 2 * line.stride, smaller}};
}

/// sum = the group's contributions in the order of positions; `before` has room for the sum of those before mine.
void sum_in_order(Builder& b, const Group& group, const Chunk& sum, const Chunk& before, const Chunk& mine) {
  if (group.position < 2) {
    b.recv_reduce(group.rank_at(1 - group.position), sum, mine);
  } else {
    b.recv(group.rank_at(0), before);
    for (int32_t at = 1; at < group.position; ++at) b.recv_reduce(group.rank_at(at), before, before);
    b.reduce(sum, before, mine);
  }
  for (int32_t at = std::max(group.position + 1, 2); at < group.size; ++at) b.recv_reduce(group.rank_at(at), sum, sum);
}

/// The power of two of positions that stay for recursive doubling: of the first 2 * folded ones the even, and all others.
struct Stayers {
  int32_t folded;
  [[nodiscard]] int32_t number_of(int32_t position) const { return position < 2 * folded ? position / 2 : position - folded; }
  [[nodiscard]] int32_t at(int32_t number) const { return number < folded ? 2 * number : number + folded; }
};

}  // namespace

Group everyone(const Shape& shape) { return {.ranks = {}, .size = shape.group.size, .position = shape.group.position}; }

std::vector<Chunk> shares(const Chunk& whole, int32_t parts) {
  const uint32_t cells = whole.cells() / static_cast<uint32_t>(parts);
  std::vector<Chunk> result;
  result.reserve(static_cast<size_t>(parts));
  for (uint32_t begin = whole.begin; result.size() < static_cast<size_t>(parts); begin += cells)
    result.push_back({whole.region, begin, begin + cells});
  return result;
}

Chunk on(const Chunk& window, const Chunk& cells) { return {window.region, cells.begin, cells.end}; }

std::vector<Chunk> on(const Chunk& window, Chunks cells) {
  std::vector<Chunk> result;
  result.reserve(cells.size());
  for (const Chunk& chunk : cells) result.push_back(on(window, chunk));
  return result;
}

std::vector<Chunk> cells_of(Chunks blocks, uint32_t index) {
  std::vector<Chunk> result;
  result.reserve(blocks.size());
  for (const Chunk& block : blocks) result.push_back(cell_of(block, index));
  return result;
}

Chunk own_block(const Shape& shape, Builder& b) {
  const uint32_t begin = static_cast<uint32_t>(shape.group.position) * b.cells_per_block();
  return b.in(begin, begin + b.cells_per_block());
}

Chunk cell_of(const Chunk& chunk, uint32_t index) { return {chunk.region, chunk.begin + index, chunk.begin + index + 1}; }

Chunk joined(Chunks shares, int32_t begin, int32_t end) {
  const Chunk& first = share_at(shares, begin);
  return {first.region, first.begin, share_at(shares, end - 1).end};
}

void complete_cells(Builder& b, const Chunk& chunk) {
  for (uint32_t cell = 0; cell < chunk.cells(); ++cell) b.complete(cell_of(chunk, cell));
}

void place(Builder& b, const Chunk& to, const Chunk& from) {
  if (to != from) b.copy(to, from);
}

void pipelined(uint32_t segments, const Stage& first, const Stage& second, const Stage& third) {
  constexpr uint32_t kLead = 2;  // how many segments a stage is ahead of the next one
  for (uint32_t now = 0; now < segments + 2 * kLead; ++now) {
    if (now < segments) first(now);
    if (now >= kLead && now < segments + kLead) second(now - kLead);
    if (now >= 2 * kLead) third(now - 2 * kLead);
  }
}

void ring_reduce_scatter(Builder& b, const Group& group, Chunks from, Chunks to) {
  if (group.size == 1) return place(b, to[0], from[0]);
  const int32_t right = group.rank_at(group.next()), left = group.rank_at(group.previous());
  for (int32_t step = 1; step < group.size; ++step) {
    const int32_t gone = group.wrap(group.position - step), kept = group.wrap(group.position - step - 1);
    const Chunk& going = share_at(step == 1 ? from : to, gone);
    for (uint32_t cell = 0; cell < going.cells(); ++cell) {
      b.send(right, cell_of(going, cell));
      b.recv_reduce(left, cell_of(share_at(to, kept), cell), cell_of(share_at(from, kept), cell));
    }
  }
}

void ring_allgather(Builder& b, const Group& group, const Chunk& own, Chunks to) {
  const int32_t right = group.rank_at(group.next()), left = group.rank_at(group.previous());
  for (int32_t step = 0; step + 1 < group.size; ++step) {
    const Chunk& going = step == 0 ? own : share_at(to, group.wrap(group.position - step));
    for (uint32_t cell = 0; cell < going.cells(); ++cell) {
      b.send(right, cell_of(going, cell));
      b.recv(left, cell_of(share_at(to, group.wrap(group.position - step - 1)), cell));
    }
  }
  place(b, share_at(to, group.position), own);
}

void direct_reduce_scatter(Builder& b, const Group& group, Chunks from, const Chunk& result) {
  const Chunk& own = share_at(from, group.position);
  if (group.size == 1) return place(b, result, own);
  const Chunk before = group.position < 2 ? Chunk{} : b.scratch(own.begin, own.end);
  for (uint32_t cell = 0; cell < own.cells(); ++cell) {
    for (int32_t distance = 1; distance < group.size; ++distance) {
      const int32_t to = group.wrap(group.position + distance);
      b.send(group.rank_at(to), cell_of(share_at(from, to), cell));
    }
    sum_in_order(b, group, cell_of(result, cell), cell_of(before, cell), cell_of(own, cell));
  }
}

void exchange_blocks(Builder& b, const Group& group, Chunks blocks, Chunks to) {
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const int32_t target = group.rank_at(group.wrap(group.position + distance));
    b.send(target, share_at(blocks, target));
  }
  for (int32_t distance = 1; distance < group.size; ++distance) {
    const int32_t source = group.rank_at(group.wrap(group.position - distance));
    b.recv(source, share_at(to, source));
  }
}

// All sends come first: where a plan is carried out in its order, nobody shall wait for one rank before others have what is for them.
void direct_allgather(Builder& b, const Group& group, const Chunk& own, Chunks to) {
  for (uint32_t cell = 0; cell < own.cells(); ++cell) {
    for (int32_t distance = 1; distance < group.size; ++distance) {
      b.send(group.rank_at(group.wrap(group.position + distance)), cell_of(own, cell));
    }
  }
  place(b, share_at(to, group.position), own);
  for (uint32_t cell = 0; cell < own.cells(); ++cell) {
    for (int32_t distance = 1; distance < group.size; ++distance) {
      const int32_t source = group.wrap(group.position - distance);
      b.recv(group.rank_at(source), cell_of(share_at(to, source), cell));
    }
  }
}

void star_reduce(Builder& b, const Group& group, int32_t home, const Chunk& from, const Chunk& result) {
  if (group.position != home) return b.send(group.rank_at(home), from);
  if (group.size == 1) return place(b, result, from);
  const Chunk before = group.position < 2 ? Chunk{} : b.scratch(from.begin, from.end);
  sum_in_order(b, group, result, before, from);
}

void star_broadcast(Builder& b, const Group& group, int32_t home, const Chunk& chunk) {
  if (group.position != home) return b.recv(group.rank_at(home), chunk);
  for (int32_t distance = 1; distance < group.size; ++distance) b.send(group.rank_at(group.wrap(home + distance)), chunk);
}

void one_shot(Builder& b, const Group& group, const Chunk& in, const Chunk& out) {
  const std::vector<Chunk> wanted(static_cast<size_t>(group.size), in);  // by everybody, all of it
  direct_reduce_scatter(b, group, wanted, out);
  b.complete(out);
}

Neighbours neighbours(const Group& group, int32_t root) {
  return {.before = group.position == root ? -1 : group.previous(), .after = group.next() == root ? -1 : group.next()};
}

void chain_broadcast(Builder& b, const Neighbours& chain, const Chunk& in, const Chunk& out) {
  const Chunk& held = chain.before < 0 ? in : out;
  for (uint32_t cell = 0; cell < out.cells(); ++cell) {
    b.level(chain.level_before);
    if (chain.before >= 0) b.recv(chain.before, cell_of(out, cell));
    b.level(chain.level_after);
    if (chain.after >= 0) b.send(chain.after, cell_of(held, cell));
  }
  b.level(0);
  place(b, out, held);
}

Chunk room_for_chain(Builder& b, const Neighbours& chain) {
  if (chain.before < 0) return b.out(0, b.cells());
  return chain.after < 0 ? Chunk{} : b.scratch(0, b.cells());
}

void chain_reduce(Builder& b, const Neighbours& chain, const Chunk& in, const Chunk& sum) {
  const Chunk& held = chain.after < 0 ? in : sum;
  for (uint32_t cell = 0; cell < in.cells(); ++cell) {
    b.level(chain.level_after);
    if (chain.after >= 0) b.recv_reduce(chain.after, cell_of(sum, cell), cell_of(in, cell));
    b.level(chain.level_before);
    if (chain.before >= 0) b.send(chain.before, cell_of(held, cell));
  }
  b.level(0);
  if (chain.before >= 0) return;
  place(b, sum, held);
  complete_cells(b, sum);
}

Halvings halvings(const Group& group, Pairing pairing) {
  Halvings result;
  for (Line line = {.first = 0, .stride = 1, .size = group.size}; line.size > 1;) {
    const auto [larger, smaller] = sides_of(line, pairing);
    const bool in_larger = larger.contains(group.position);
    const Line &mine = in_larger ? larger : smaller, &theirs = in_larger ? smaller : larger;
    const int32_t begin = result.share, border = begin + larger.size, end = border + smaller.size;
    Halving step = {.mine_begin = begin, .mine_end = border, .theirs_begin = border, .theirs_end = end};
    if (!in_larger) step = {.mine_begin = border, .mine_end = end, .theirs_begin = begin, .theirs_end = border};

    const int32_t index = mine.index_of(group.position);
    (index < theirs.size ? step.partner : step.helper) = theirs.at(std::min(index, theirs.size - 1));
    if (theirs.size > mine.size && index == mine.size - 1) step.helped = theirs.last();
    result.steps.push_back(step);
    result.share = step.mine_begin;
    line = mine;
  }
  return result;
}

void halving_reduce_scatter(Builder& b, const Group& group, const Halvings& halvings, Chunks from, const Chunk& work, const Chunk& result) {
  if (group.size == 1) return place(b, result, from[0]);
  Chunk held = joined(from, 0, group.size);  // where the partials of the shares lie that my side goes on with
  for (size_t i = 0; i < halvings.steps.size(); ++i) {
    const Halving& step = halvings.steps[i];
    const Chunk mine = joined(from, step.mine_begin, step.mine_end), theirs = joined(from, step.theirs_begin, step.theirs_end);
    const Chunk kept = b.part(held, mine.begin, mine.end), given = b.part(held, theirs.begin, theirs.end);
    held = kept;
    if (step.helper >= 0) b.send(group.rank_at(step.helper), given);
    if (step.partner < 0) continue;
    held = i + 1 == halvings.steps.size() ? result : b.part(work, mine.begin, mine.end);
    b.send(group.rank_at(step.partner), given);
    b.recv_reduce(group.rank_at(step.partner), held, kept);
    if (step.helped >= 0) b.recv_reduce(group.rank_at(step.helped), held, held);
  }
}

void doubling_allgather(Builder& b, const Group& group, const Halvings& halvings, const Chunk& own, Chunks to) {
  place(b, share_at(to, halvings.share), own);
  for (size_t i = halvings.steps.size(); i-- > 0;) {
    const Halving& step = halvings.steps[i];
    const bool first = i + 1 == halvings.steps.size();
    const Chunk held = first ? own : joined(to, step.mine_begin, step.mine_end);
    const Chunk missing = joined(to, step.theirs_begin, step.theirs_end);
    if (step.partner >= 0) {
      b.send(group.rank_at(step.partner), held);
      b.recv(group.rank_at(step.partner), missing);
    }
    if (step.helper >= 0) b.recv(group.rank_at(step.helper), missing);
    if (step.helped >= 0) b.send(group.rank_at(step.helped), held);
  }
}

namespace {

/// Both kinds of recursive doubling: sums of elements, which are completed, and maxima of scales.
void fold_and_double(Builder& b, const Group& group, const Chunk& in, const Chunk& out, bool scales) {
  const auto staying = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(group.size)));
  const Stayers stayers = {.folded = group.size - staying};
  const bool folds = group.position < 2 * stayers.folded;
  if (folds && group.position % 2 == 1) {
    const int32_t stayer = group.rank_at(group.position - 1);
    b.send(stayer, in);
    b.recv(stayer, out);
    return;
  }
  const int32_t folded = folds ? group.rank_at(group.position + 1) : -1;
  Chunk sum = in;
  const auto add = [&](int32_t peer) {
    scales ? b.recv_reduce_scale(peer, out, sum) : b.recv_reduce(peer, out, sum);
    sum = out;
  };
  if (folds) add(folded);
  const int32_t number = stayers.number_of(group.position);
  for (int32_t distance = 1; distance < staying; distance *= 2) {
    const int32_t peer = group.rank_at(stayers.at(number ^ distance));
    b.send(peer, sum);
    add(peer);
  }
  place(b, out, sum);
  if (!scales) b.complete(out);
  if (folds) b.send(folded, out);
}

}  // namespace

void recursive_doubling(Builder& b, const Group& group, const Chunk& in, const Chunk& out) { fold_and_double(b, group, in, out, false); }

void doubling_of_scales(Builder& b, const Group& group, const Chunk& in, const Chunk& out) { fold_and_double(b, group, in, out, true); }

}  // namespace isthmus::collectives
