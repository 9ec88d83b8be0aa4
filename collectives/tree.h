// SPDX-License-Identifier: Apache-2.0
// Ranks as a tree of sets that are close to each other (hosts, buildings, ...), as hierarchies need them, and the two phases over it: sums
// that go up level by level, and what is told downwards. Sets may have any sizes and lie among the ranks in any way. Messages within the
// lowest sets are at level 0, each wider division is one level up. Called by collectives/hierarchical/; errors are held by the builder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/phases.h"

namespace isthmus::collectives {

/// Nodes of level 0 are the ranks, one of the top level is all of them; in between are the sets of Shape::sites, without those that divide
/// nothing. Nodes of a level are numbered so that those of one parent follow each other.
class Tree {
 public:
  explicit Tree(const Shape& shape);

  /// The level of the root: 1 where ranks are not told apart.
  [[nodiscard]] int32_t top() const { return static_cast<int32_t>(levels_.size()) - 1; }
  [[nodiscard]] int32_t me() const { return me_; }
  /// A position in the order of the tree, in which every node's ranks follow each other.
  [[nodiscard]] int32_t number_of(int32_t position) const { return levels_[0].of[static_cast<size_t>(position)]; }
  /// The key of a rank's block, so that each site has so many who handle blocks; 0: all of them do.
  [[nodiscard]] int32_t key_of(int32_t position, uint32_t leaders) const {
    return leaders == 0 ? number_of(position) : number_of(position) % static_cast<int32_t>(leaders);
  }
  [[nodiscard]] int32_t position_at(int32_t number) const { return order_[static_cast<size_t>(number)]; }
  /// A position's node.
  [[nodiscard]] int32_t node(int32_t level, int32_t position) const { return at(level).of[static_cast<size_t>(position)]; }
  /// Children of a node, by their numbers at the level below.
  [[nodiscard]] int32_t first_child(int32_t level, int32_t node) const { return at(level).first[static_cast<size_t>(node)]; }
  [[nodiscard]] int32_t children(int32_t level, int32_t node) const { return first_child(level, node + 1) - first_child(level, node); }
  /// Children of this rank's own node, and which of them it is in.
  [[nodiscard]] int32_t own_children(int32_t level) const { return children(level, node(level, me_)); }
  [[nodiscard]] int32_t own_child(int32_t level) const { return node(level - 1, me_) - first_child(level, node(level, me_)); }
  /// Ranks of the smallest of the root's children.
  [[nodiscard]] int32_t smallest_site() const;

  /// The rank of a node that handles what is numbered so: `owner` if it is in the node (-1: nobody's), else one by `key`, so that keys that
  /// follow each other go to different ranks.
  [[nodiscard]] int32_t home(int32_t level, int32_t node, int32_t key, int32_t owner = -1) const;
  /// The level up to which this rank is the home of its own nodes: whoever is a node's home is that of the child that it is in, too.
  [[nodiscard]] int32_t highest_home(int32_t key, int32_t owner = -1) const;
  /// Of each child of this rank's own node.
  [[nodiscard]] std::vector<int32_t> homes(int32_t level, int32_t key, int32_t owner = -1) const;

  /// A chain of all ranks from the root on that stays in each node until all its ranks have come, the root's nodes first.
  [[nodiscard]] Neighbours chain_from(int32_t root) const;

 private:
  struct Level {
    std::vector<int32_t> first;  ///< by node: its first child; one more at the end
    std::vector<int32_t> of;     ///< by position: its node
    int32_t stride = 1;          ///< keys of so many in a row have the same child
  };
  [[nodiscard]] const Level& at(int32_t level) const { return levels_[static_cast<size_t>(level)]; }
  void add_level(const std::vector<bool>& begins);
  /// The level at which two positions meet, as messages name it.
  [[nodiscard]] uint8_t level_between(int32_t a, int32_t b) const;

  int32_t me_ = 0;
  std::vector<int32_t> order_;  ///< positions in the order of the tree
  std::vector<Level> levels_;
};

/// What is summed or told along the tree.
struct Stream {
  int32_t key = 0;      ///< for Tree::home
  int32_t owner = -1;   ///< who has it, or is to have it; -1: nobody in particular
  int32_t highest = 0;  ///< level up to which this rank is its home (Tree::highest_home)
  Chunk from, to;       ///< where this rank has it from, and where it shall be
};

/// What this rank holds of a stream that is summed: `from` until there is a sum in `to`.
Chunk held_of(Builder& b, const Stream& stream);

/// Of each node of the level: those who hold a stream's sums of the node's children send them to the node's home for it, who adds them in
/// the order of children.
void add_up(Builder& b, const Tree& tree, int32_t level, std::span<const Stream> streams);
/// The way back: homes of a node's children get it from the node's. The owner has it in `from`, everybody else in `to`.
void tell_down(Builder& b, const Tree& tree, int32_t level, std::span<const Stream> streams);

/// The same between the widest sites, each of which hears from the one before it and speaks to the next: sums go around to the owner, whose
/// site's comes last, and what the owner has goes around from there.
void add_around(Builder& b, const Tree& tree, std::span<const Stream> streams);
void tell_around(Builder& b, const Tree& tree, std::span<const Stream> streams);

/// The streams' cells of one segment.
std::vector<Stream> segment_of(std::span<const Stream> streams, uint32_t segment);

}  // namespace isthmus::collectives
