// SPDX-License-Identifier: Apache-2.0
// Shapes and the plans of all their ranks. Called by the plan proofs.
#include "worlds.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "base/rng.h"
#include "codec/thc.h"
#include "collectives/registry.h"
#include "plan/builder.h"
#include "toy_codec.h"

namespace isthmus::plan {

namespace {

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  bool map_in = false;
};

std::vector<Reduction> reductions_of(Collective collective) {
  if (!is_reducing(collective)) return {{ReduceOp::sum, false}};
  return {{ReduceOp::sum, false}, {ReduceOp::avg, false}, {ReduceOp::sum, true}};
}

std::vector<int32_t> roots_of(Collective collective, int32_t ranks) {
  if (!is_rooted(collective)) return {-1};
  std::vector<int32_t> roots;
  for (int32_t root = 0; root < ranks; ++root) {
    if (ranks <= 16 || root == 0 || root == 1 || root == ranks / 2 || root == ranks - 1) roots.push_back(root);
  }
  return roots;
}

std::vector<uint32_t> segments_of(const Algorithm& algorithm, int32_t ranks) {
  for (const Tunable& tunable : algorithm.tunables) {
    if (tunable.name == "segments" && ranks <= 16) return {1, 3};
  }
  return {1};
}

/// The default configuration for so many ranks, which lives as long as the program.
const codec::Codec* thc_for(int32_t ranks) {
  static std::map<int32_t, std::unique_ptr<const codec::Thc>> made;
  auto& thc = made[ranks];
  if (thc == nullptr) {
    auto fresh = codec::make_thc({}, static_cast<uint32_t>(ranks));
    if (fresh.ok()) thc = std::move(*fresh);
  }
  return thc == nullptr ? nullptr : &thc->codec;
}

std::vector<const codec::Codec*> codecs_of(const Algorithm& algorithm, int32_t ranks) {
  if (algorithm.needs.coding == Coding::none) return {nullptr};
  if (algorithm.needs.coding == Coding::decoding) return {codec::find("bf16")};
  if (ranks % 5 != 0) return {&kToyCodec};  // plans differ by the codec's blocks only, so a few counts do for the other
  return {&kToyCodec, thc_for(ranks)};
}

using Sites = std::vector<int32_t>;

/// A random tree of two to four levels: the ranks in any order, cut into parts of any sizes, and those again.
Sites random_tree(int32_t ranks, uint64_t seed) {
  CounterRng rng(seed, static_cast<uint64_t>(ranks));
  std::vector<size_t> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  for (size_t at = order.size(); at > 1; --at) std::swap(order[at - 1], order[rng.below(at)]);
  const size_t levels = 2 + rng.below(3);
  Sites sites;
  std::vector<bool> begins(order.size(), false);
  for (size_t level = 0; level < levels; ++level) {
    const double cut = level == 0 ? 2.0 / ranks : 0.25;
    Sites division(order.size());
    int32_t number = 5;
    for (size_t at = 1; at < order.size(); ++at) {
      begins[at] = begins[at] || rng.chance(cut);
      if (begins[at]) ++number;
      division[order[at]] = number;
    }
    division[order[0]] = 5;
    sites.insert(sites.end(), division.begin(), division.end());
  }
  return sites;
}

/// Ways to distribute ranks over sites: one, each rank its own, two in turn, three eighths and the rest, unequal sites out of order; pairs
/// within halves; and trees of several levels.
const std::vector<Sites>& partitions(int32_t ranks) {
  static std::map<int32_t, std::vector<Sites>> made;  // shapes refer to them
  std::vector<Sites>& all = made[ranks];
  if (!all.empty()) return all;
  Sites single, cyclic, split, unequal;
  for (int32_t position = 0; position < ranks; ++position) {
    single.push_back(position);
    cyclic.push_back(position % 2);
    split.push_back(8 * position < 3 * ranks ? 7 : 3);
    unequal.push_back(position % 7 == 0 ? 2 : position % 3 == 0 ? 0 : 1);
  }
  all = {{}, single, cyclic, split, unequal};
  Sites halves = split;  // and pairs within them
  for (int32_t position = 0; position < ranks; ++position) halves.push_back(position / 2);
  all.push_back(halves);
  for (uint64_t seed = 1; seed <= 3; ++seed) all.push_back(random_tree(ranks, seed));
  return all;
}

std::vector<std::span<const int32_t>> sites_of(const Algorithm& algorithm, int32_t ranks) {
  if (!algorithm.needs.by_site) return {{}};
  return {partitions(ranks).begin(), partitions(ranks).end()};
}

/// Plans of many ranks take long to prove. There compressed algorithms and hierarchies get each op only in place or only out of place, in
/// turn with the number of ranks, and hierarchies get one way to distribute the ranks over sites for each, in turn.
bool is_large(const Algorithm& algorithm, int32_t ranks) {
  return (algorithm.needs.coding != Coding::none || algorithm.needs.by_site) && ranks > 12;
}

bool leaves_out(const Algorithm& algorithm, int32_t ranks, const Reduction& reduction, bool in_place) {
  if (!may_be_in_place(algorithm.collective)) return false;
  const bool odd = (ranks + (reduction.op == ReduceOp::avg ? 1 : 0)) % 2 != 0;
  return is_large(algorithm, ranks) && in_place != odd;
}

/// Numbers of leaders: as many as can be, fewer, and more than small sites have ranks.
std::vector<uint32_t> leaders_of(const Algorithm& algorithm, int32_t ranks) {
  const auto listed = [](const Tunable& tunable) { return tunable.name == "leaders"; };
  if (std::none_of(algorithm.tunables.begin(), algorithm.tunables.end(), listed) || ranks > 16) return {0};
  return {0, 1, 2};
}

/// Ways across sites: all, and with a given number of leaders one other than the usual, in turn.
std::vector<Across> ways_of(const Algorithm& algorithm, uint32_t leaders, size_t turn) {
  const auto listed = [](const Tunable& tunable) { return tunable.name == "across"; };
  const auto found = std::find_if(algorithm.tunables.begin(), algorithm.tunables.end(), listed);
  std::vector<Across> ways = {Across::direct};
  if (found == algorithm.tunables.end()) return ways;
  for (uint32_t way = 1; way <= found->max; ++way) {
    if (leaders == 0 || way == 1 + turn % found->max) ways.push_back(static_cast<Across>(way));
  }
  return ways;
}

/// Shapes like `shape` for every codec, number of leaders, way across and way to distribute the ranks over sites.
void add_variants(const Algorithm& algorithm, Shape shape, std::vector<Shape>& shapes) {
  for (const codec::Codec* codec : codecs_of(algorithm, shape.group.size)) {
    shape.codec = codec;
    const auto all_sites = sites_of(algorithm, shape.group.size);
    const auto all_leaders = leaders_of(algorithm, shape.group.size);
    for (size_t at = 0; at < all_sites.size(); ++at) {
      const size_t turn = (shapes.size() + static_cast<size_t>(shape.group.size)) % all_sites.size();
      if (is_large(algorithm, shape.group.size) && at != turn) continue;
      shape.sites = all_sites[at];
      for (const uint32_t leaders : all_leaders) {
        shape.leaders = leaders;
        for (const Across across : ways_of(algorithm, leaders, at + leaders)) {
          shape.across = across;
          shapes.push_back(shape);
        }
      }
      if (is_large(algorithm, shape.group.size)) break;
    }
  }
}

}  // namespace

std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> algorithms(collectives::registry().begin(), collectives::registry().end());
  algorithms.insert(algorithms.end(), collectives::compressed_registry().begin(), collectives::compressed_registry().end());
  algorithms.push_back(&kToyAllreduce);
  return algorithms;
}

Result<std::vector<Plan>> build_world(const Algorithm& algorithm, Shape shape) {
  std::vector<Plan> world;
  world.reserve(static_cast<size_t>(shape.group.size));
  for (shape.group.position = 0; shape.group.position < shape.group.size; ++shape.group.position) {
    ISTHMUS_ASSIGN(Plan plan, build(algorithm, shape));
    world.push_back(std::move(plan));
  }
  return world;
}

std::vector<Shape> shapes_of(const Algorithm& algorithm, int32_t ranks) {
  std::vector<Shape> shapes;
  for (const int32_t root : roots_of(algorithm.collective, ranks)) {
    for (const uint32_t segments : segments_of(algorithm, ranks)) {
      for (const Reduction& reduction : reductions_of(algorithm.collective)) {
        for (const bool in_place : {false, true}) {
          if (in_place && !may_be_in_place(algorithm.collective)) continue;
          if (leaves_out(algorithm, ranks, reduction, in_place)) continue;
          const Shape shape = {.collective = algorithm.collective,
                               .group = {.ranks = {}, .size = ranks, .position = 0},
                               .root = root,
                               .in_place = in_place,
                               .op = reduction.op,
                               .map_in = reduction.map_in,
                               .segments = segments};
          add_variants(algorithm, shape, shapes);
        }
      }
    }
  }
  return shapes;
}

uint64_t bytes_across(const std::vector<Plan>& world, std::span<const int32_t> sites, uint64_t count, size_t element_bytes,
                      bool& levels_tell) {
  Binding binding;
  bind(world[0].grid, count, binding);
  uint64_t bytes = 0;
  for (const Plan& plan : world) {
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::send) continue;
      const bool crosses = sites[static_cast<size_t>(plan.rank)] != sites[static_cast<size_t>(step.peer)];
      if (crosses) bytes += chunk_bytes(plan, step.src(), binding, element_bytes);
      levels_tell = levels_tell && crosses == (step.level == 1);
    }
  }
  return bytes;
}

namespace {

std::string words(std::span<const int32_t> sites) {
  std::string text = sites.empty() ? "" : ", sites";
  for (const int32_t site : sites) text += fmt::format(" {}", site);
  return text;
}

}  // namespace

std::string describe(const Algorithm& algorithm, const Shape& shape) {
  return fmt::format("{}/{} over {} ranks{}, {}{}, {} segments, {} leaders, {} across{}{}{}", isthmus::name_of(algorithm.collective),
                     algorithm.name, shape.group.size, shape.in_place ? ", in place" : "", isthmus::name_of(shape.op),
                     shape.map_in ? " of scaled input" : "", shape.segments, shape.leaders, name_of(shape.across),
                     shape.root >= 0 ? fmt::format(", root {}", shape.root) : "",
                     shape.codec != nullptr ? fmt::format(", codec {}", shape.codec->name) : "", words(shape.sites));
}

}  // namespace isthmus::plan
