// SPDX-License-Identifier: Apache-2.0
// An algorithm as a value: what it is called, what it needs, what can be tuned, and the pure function that emits one rank's
// plan. Defined in collectives/, listed once in collectives/registry.cc. emit() reports no errors: the builder holds the first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"
#include "codec/codec.h"

namespace isthmus::plan {

class Builder;

/// An ordered set of communicator ranks and my position in it. Algorithms speak of positions only, so they compose over
/// any subset. `ranks` empty means the identity: position p is rank p.
struct Group {
  std::span<const int32_t> ranks;
  int32_t size = 1;
  int32_t position = 0;
  [[nodiscard]] int32_t rank_at(int32_t at) const { return ranks.empty() ? at : ranks[static_cast<size_t>(at)]; }
  [[nodiscard]] int32_t wrap(int32_t at) const { return ((at % size) + size) % size; }
  [[nodiscard]] int32_t next() const { return wrap(position + 1); }
  [[nodiscard]] int32_t previous() const { return wrap(position - 1); }
};

/// How those who speak for the widest sites exchange, in hierarchies that list the tunable. Between two sites direct is one shot.
enum class Across : uint8_t {
  direct,              ///< everybody with everybody: the fewest bytes in the fewest steps
  ring,                ///< each site with two others, as many bytes in as many steps as there are sites
  one_shot,            ///< everybody sends all of its sum to everybody: one step, and most bytes
  recursive_doubling,  ///< whole sums between pairs
};
inline constexpr std::array<std::string_view, 4> kAcrossNames = {"direct", "ring", "one_shot", "recursive_doubling"};
constexpr std::string_view name_of(Across across) { return kAcrossNames[static_cast<size_t>(across)]; }

/// What the plan is for. `root` is a position in the group (-1 where the collective has none).
struct Shape {
  Collective collective = Collective::allreduce;
  Group group;
  int32_t root = -1;
  bool in_place = false;
  ReduceOp op = ReduceOp::sum;
  bool map_in = false;                  ///< each rank multiplies its input by a scalar first (PreMulSum)
  uint32_t segments = 1;                ///< pipeline segments, for algorithms that list the tunable
  const codec::Codec* codec = nullptr;  ///< what travels encoded; null: nothing
  /// Who is close to whom: by position a number for each set of ranks that are close to each other; empty: one set. Then the same within
  /// those sets, for any number of levels: from the widest division (of regions, say) to the narrowest (of hosts).
  std::span<const int32_t> sites;
  uint32_t leaders = 0;            ///< of each set, for algorithms that list the tunable; 0: as many as the smallest of the widest sets has
  Across across = Across::direct;  ///< for algorithms that list the tunable
};

/// What an algorithm does with a codec.
enum class Coding : uint8_t {
  none,      ///< it sends elements as they are
  sums,      ///< it adds encodings: only for homomorphic codecs
  decoding,  ///< whoever adds decodes first, and encodes the sum anew: for codecs whose encodings need no common scale
};

/// Requirements as data.
struct Needs {
  int32_t min_ranks = 1;
  int32_t max_ranks = INT32_MAX;  ///< e.g. direct exchange stops paying, and plans grow, with many ranks
  bool power_of_two = false;
  Coding coding = Coding::none;
  bool by_site = false;  ///< goes by Shape::sites: worth it where some ranks are close to each other and others are not
};

struct Tunable {
  std::string_view name;  ///< "segments"; of "across" the numbers are those of Across
  uint32_t min, max;
};

/// The formulas of an algorithm that goes across another way than by default.
struct Variant {
  Across across;
  std::string_view steps_formula, bytes_formula;
};

struct Algorithm {
  std::string_view name;  ///< unique within its collective: "ring"
  Collective collective;
  Needs needs;
  std::span<const Tunable> tunables;
  std::string_view steps_formula;  ///< messages on the longest chain, for the generated table: "2(P-1)"
  std::string_view bytes_formula;  ///< bytes sent per rank, N = buffer bytes: "2N(P-1)/P"
  void (*emit)(const Shape&, Builder&);
  std::span<const Variant> variants = {};
};

/// True if the algorithm serves that many ranks.
constexpr bool serves(const Algorithm& algorithm, int32_t ranks) {
  if (ranks < algorithm.needs.min_ranks || ranks > algorithm.needs.max_ranks) return false;
  return !algorithm.needs.power_of_two || (ranks & (ranks - 1)) == 0;
}

/// True if the algorithm can use that codec.
constexpr bool codes_with(const Algorithm& algorithm, const codec::Codec& codec) {
  switch (algorithm.needs.coding) {
    case Coding::none:
      return false;
    case Coding::sums:
      return codec.homomorphic;
    case Coding::decoding:
      return !codec.needs_scale;
  }
  return false;
}

}  // namespace isthmus::plan
