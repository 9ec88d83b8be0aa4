// SPDX-License-Identifier: Apache-2.0
// Trees of ranks and phases over them. See tree.h.
#include "collectives/tree.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace isthmus::collectives {

namespace {

/// Numbers from 0 on, in the order of first appearance.
std::vector<int32_t> numbered(std::span<const int32_t> names) {
  std::vector<int32_t> result(names.size());
  const auto most = static_cast<int32_t>(names.size());
  int32_t next = 0;
  if (std::all_of(names.begin(), names.end(), [&](int32_t name) { return name >= 0 && name < most; })) {
    std::vector<int32_t> known(names.size(), -1);
    for (size_t at = 0; at < names.size(); ++at) {
      int32_t& number = known[static_cast<size_t>(names[at])];
      if (number < 0) number = next++;
      result[at] = number;
    }
    return result;
  }
  std::map<int32_t, int32_t> known;
  for (size_t at = 0; at < names.size(); ++at) result[at] = known.try_emplace(names[at], static_cast<int32_t>(known.size())).first->second;
  return result;
}

/// `order` sorted by its positions' numbers; those of one number stay in their order.
std::vector<int32_t> sorted_by(const std::vector<int32_t>& order, const std::vector<int32_t>& numbers) {
  std::vector<size_t> begin(order.size() + 1, 0);
  for (const int32_t number : numbers) ++begin[static_cast<size_t>(number) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int32_t> result(order.size());
  for (const int32_t position : order) {
    result[begin[static_cast<size_t>(numbers[static_cast<size_t>(position)])]++] = position;
  }
  return result;
}

}  // namespace

Chunk held_of(Builder& b, const Stream& stream) {
  return stream.to.valid() ? b.partial(stream.to, stream.from.begin, stream.from.end) : stream.from;
}

Tree::Tree(const Shape& shape) : me_(shape.group.position), order_(static_cast<size_t>(shape.group.size)) {
  const auto size = static_cast<size_t>(shape.group.size);
  std::iota(order_.begin(), order_.end(), 0);
  std::vector<std::vector<int32_t>> divisions;  // the widest first
  for (size_t begin = 0; begin + size <= shape.sites.size(); begin += size) divisions.push_back(numbered(shape.sites.subspan(begin, size)));
  for (auto division = divisions.rbegin(); division != divisions.rend(); ++division) order_ = sorted_by(order_, *division);

  // Where nodes begin in the order of the tree: a node of a division begins wherever one of a wider division does.
  std::vector<std::vector<bool>> begins;
  std::vector<bool> now(size, false);
  now[0] = true;
  for (const std::vector<int32_t>& division : divisions) {
    for (size_t at = 1; at < size; ++at) {
      if (division[static_cast<size_t>(order_[at])] != division[static_cast<size_t>(order_[at - 1])]) now[at] = true;
    }
    begins.push_back(now);
  }
  add_level(std::vector<bool>(size, true));
  for (auto each = begins.rbegin(); each != begins.rend(); ++each) add_level(*each);
  std::fill(now.begin() + 1, now.end(), false);
  add_level(now);
  for (int32_t level = top() - 2; level > 0; --level) {
    int32_t most = 1;
    const Level& above = at(level + 1);
    for (size_t node = 0; node + 1 < above.first.size(); ++node) most = std::max(most, above.first[node + 1] - above.first[node]);
    levels_[static_cast<size_t>(level)].stride = above.stride * most;
  }
}

// A division that divides as the one below it does is none; neither is one that divides nothing, which the root does.
void Tree::add_level(const std::vector<bool>& begins) {
  const auto nodes = std::count(begins.begin(), begins.end(), true);
  Level level;
  level.of.resize(order_.size());
  level.first.reserve(static_cast<size_t>(nodes) + 1);
  for (size_t number = 0; number < order_.size(); ++number) {
    const auto position = static_cast<size_t>(order_[number]);
    if (begins[number]) level.first.push_back(levels_.empty() ? static_cast<int32_t>(number) : levels_.back().of[position]);
    level.of[position] = static_cast<int32_t>(level.first.size()) - 1;
  }
  const auto below = levels_.empty() ? order_.size() : levels_.back().first.size() - 1;
  level.first.push_back(static_cast<int32_t>(below));
  const bool divides_less = levels_.size() != 1 || nodes == 1 || static_cast<size_t>(nodes) < order_.size();
  if (!divides_less || (levels_.size() > 1 && levels_.back().first.size() == level.first.size())) return;
  levels_.push_back(std::move(level));
}

int32_t Tree::smallest_site() const {
  std::vector<int32_t> sizes(static_cast<size_t>(children(top(), 0)), 0);
  for (size_t position = 0; position < order_.size(); ++position) ++sizes[static_cast<size_t>(at(top() - 1).of[position])];
  return *std::min_element(sizes.begin(), sizes.end());
}

int32_t Tree::home(int32_t level, int32_t node, int32_t key, int32_t owner) const {
  if (owner >= 0 && this->node(level, owner) == node) return owner;
  for (; level > 0; --level) {
    const int32_t first = first_child(level, node), count = first_child(level, node + 1) - first;
    node = count == 1 ? first : first + key / at(level).stride % count;
  }
  return position_at(node);
}

int32_t Tree::highest_home(int32_t key, int32_t owner) const {
  int32_t level = 0;
  while (level < top() && home(level + 1, node(level + 1, me_), key, owner) == me_) ++level;
  return level;
}

std::vector<int32_t> Tree::homes(int32_t level, int32_t key, int32_t owner) const {
  const int32_t first = first_child(level, node(level, me_)), count = own_children(level);
  std::vector<int32_t> result;
  result.reserve(static_cast<size_t>(count));
  for (int32_t child = 0; child < count; ++child) result.push_back(home(level - 1, first + child, key, owner));
  return result;
}

uint8_t Tree::level_between(int32_t a, int32_t b) const {
  int32_t level = 1;
  while (node(level, a) != node(level, b)) ++level;
  return static_cast<uint8_t>(level - 1);
}

Neighbours Tree::chain_from(int32_t root) const {
  // Within each node of the root's the child that has the root comes first, and the others in their order around.
  std::vector<int32_t> chain = order_;
  for (int32_t level = top(); level > 0; --level) {
    const int32_t parent = node(level, root), child = node(level - 1, root);
    const auto of = [&](int32_t below, int32_t position) { return node(below, position); };
    const auto begin = std::find_if(chain.begin(), chain.end(), [&](int32_t position) { return of(level, position) == parent; });
    const auto middle = std::find_if(begin, chain.end(), [&](int32_t position) { return of(level - 1, position) == child; });
    const auto end = std::find_if(middle, chain.end(), [&](int32_t position) { return of(level, position) != parent; });
    std::rotate(begin, middle, end);
  }
  const auto me = std::find(chain.begin(), chain.end(), me_);
  Neighbours neighbours;
  if (me != chain.begin()) {
    neighbours.before = *(me - 1);
    neighbours.level_before = level_between(me_, neighbours.before);
  }
  if (me + 1 != chain.end()) {
    neighbours.after = *(me + 1);
    neighbours.level_after = level_between(me_, neighbours.after);
  }
  return neighbours;
}

void add_up(Builder& b, const Tree& tree, int32_t level, std::span<const Stream> streams) {
  const int32_t count = tree.own_children(level), own = tree.own_child(level);
  if (count == 1) return;
  const int32_t node = tree.node(level, tree.me());
  struct Part {
    const Stream* stream;
    int32_t home;
  };
  std::vector<std::vector<Part>> by_child(static_cast<size_t>(count));  // by who adds them
  for (const Stream& stream : streams) {
    if (stream.highest < level - 1) continue;
    const int32_t home = stream.highest >= level ? tree.me() : tree.home(level, node, stream.key, stream.owner);
    by_child[static_cast<size_t>(tree.node(level - 1, home) - tree.first_child(level, node))].push_back({&stream, home});
  }
  b.level(static_cast<uint8_t>(level - 1));
  for (int32_t distance = 1; distance <= count; ++distance) {
    const int32_t to = (own + distance) % count;
    for (const auto& [stream, home] : by_child[static_cast<size_t>(to)]) {
      const Chunk held = held_of(b, *stream);
      if (to == own) {
        const std::vector<int32_t> homes = tree.homes(level, stream->key, stream->owner);
        star_reduce(b, {.ranks = homes, .size = count, .position = own}, own, held, stream->to);
      } else {
        b.send(home, held);
      }
    }
  }
  b.level(0);
}

void tell_down(Builder& b, const Tree& tree, int32_t level, std::span<const Stream> streams) {
  const int32_t count = tree.own_children(level), own = tree.own_child(level);
  if (count == 1) return;
  const int32_t node = tree.node(level, tree.me());
  b.level(static_cast<uint8_t>(level - 1));
  for (const Stream& stream : streams) {
    if (stream.highest < level) continue;
    const std::vector<int32_t> homes = tree.homes(level, stream.key, stream.owner);
    star_broadcast(b, {.ranks = homes, .size = count, .position = own}, own, stream.owner == tree.me() ? stream.from : stream.to);
  }
  for (const Stream& stream : streams) {
    if (stream.highest == level - 1) b.recv(tree.home(level, node, stream.key, stream.owner), stream.to);
  }
  b.level(0);
}

namespace {

/// The ways of streams around the widest sites, from the one `first` sites after the owner's on. Visits those that this rank's site takes
/// part in, by how far they have come, so that two neighbours agree on the order of their messages.
template <typename Visit>
void around(Builder& b, const Tree& tree, std::span<const Stream> streams, int32_t first, const Visit& visit) {
  const int32_t top = tree.top(), count = tree.own_children(top), own = tree.own_child(top);
  const auto home = [&](const Stream& stream, int32_t site) {
    return tree.home(top - 1, (site + count) % count, stream.key, stream.owner);
  };
  b.level(static_cast<uint8_t>(top - 1));
  for (int32_t distance = first; distance < first + count; ++distance) {
    for (const Stream& stream : streams) {
      const int32_t from = (own - tree.node(top - 1, stream.owner) + count) % count;
      if (stream.highest < top - 1 || from != distance % count) continue;
      const int32_t before = distance == first ? -1 : home(stream, own - 1),
                    after = distance + 1 == first + count ? -1 : home(stream, own + 1);
      visit(stream, before, after);
    }
  }
  b.level(0);
}

}  // namespace

void add_around(Builder& b, const Tree& tree, std::span<const Stream> streams) {
  around(b, tree, streams, 1, [&](const Stream& stream, int32_t before, int32_t after) {
    const Chunk held = held_of(b, stream);
    if (before >= 0) b.recv_reduce(before, stream.to, held);
    if (after >= 0) b.send(after, before >= 0 ? stream.to : held);
  });
}

void tell_around(Builder& b, const Tree& tree, std::span<const Stream> streams) {
  around(b, tree, streams, 0, [&](const Stream& stream, int32_t before, int32_t after) {
    if (before >= 0) b.recv(before, stream.to);
    if (after >= 0) b.send(after, before >= 0 ? stream.to : stream.from);
  });
}

std::vector<Stream> segment_of(std::span<const Stream> streams, uint32_t segment) {
  std::vector<Stream> result(streams.begin(), streams.end());
  for (Stream& stream : result) {
    if (stream.from.valid()) stream.from = cell_of(stream.from, segment);
    if (stream.to.valid()) stream.to = cell_of(stream.to, segment);
  }
  return result;
}

}  // namespace isthmus::collectives
