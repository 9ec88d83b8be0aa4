// SPDX-License-Identifier: Apache-2.0
// Shapes and the plans of all their ranks. Called by the plan proofs.
#include "worlds.h"

#include <fmt/core.h>

#include <utility>

#include "plan/builder.h"

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

}  // namespace

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
          shapes.push_back({.collective = algorithm.collective,
                            .group = {.ranks = {}, .size = ranks, .position = 0},
                            .root = root,
                            .in_place = in_place,
                            .op = reduction.op,
                            .map_in = reduction.map_in,
                            .segments = segments});
        }
      }
    }
  }
  return shapes;
}

std::string describe(const Algorithm& algorithm, const Shape& shape) {
  return fmt::format("{}/{} over {} ranks{}, {}{}, {} segments{}", isthmus::name_of(algorithm.collective), algorithm.name, shape.group.size,
                     shape.in_place ? ", in place" : "", isthmus::name_of(shape.op), shape.map_in ? " of scaled input" : "", shape.segments,
                     shape.root >= 0 ? fmt::format(", root {}", shape.root) : "");
}

}  // namespace isthmus::plan
