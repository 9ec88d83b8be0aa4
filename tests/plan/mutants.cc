// SPDX-License-Identifier: Apache-2.0
// Tests the checkers: damages the plans of every algorithm in twelve ways and counts how many of the defects they find. A mutant
// that they accept must be equivalent to the original by a rule of equivalence.h; any other survivor is a failure.
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mutate.h"
#include "plan/check.h"
#include "plan/print.h"
#include "worlds.h"

namespace isthmus::plan {
namespace {

constexpr uint64_t kCount = uint64_t{1} << 20;  // fills every cell
constexpr uint64_t kSeeds = 16, kFewSeeds = 6;  // there are many more shapes of compressed algorithms and of hierarchies

struct Tally {
  uint64_t total = 0, killed = 0, equivalent = 0;
  [[nodiscard]] uint64_t survivors() const { return total - killed - equivalent; }
};

bool is_killed(World world) {
  return !check_symbolic(world, kCount, 1).ok() || !check_deadlock(world, kCount, Reads::pushed).ok() ||
         !check_deadlock(world, kCount, Reads::in_place).ok();
}

void damage(const std::string& what, const std::vector<Plan>& world, const Defect& defect, uint64_t seed, Tally& tally) {
  CounterRng rng(seed, static_cast<uint64_t>(&defect - defects().data()));
  const auto mutant = defect.make(world, rng);
  if (!mutant) return;
  ++tally.total;
  if (is_killed(mutant->world)) {
    ++tally.killed;
  } else if (mutant->equivalent != nullptr) {
    ++tally.equivalent;
  } else {
    if (tally.survivors() > 40) return;
    fmt::print(stderr, "SURVIVED: {}: {} with seed {}\n", what, defect.name, seed);
    for (size_t rank = 0; rank < world.size(); ++rank) {
      if (world[rank].steps == mutant->world[rank].steps && world[rank].deps == mutant->world[rank].deps) continue;
      fmt::print(stderr, "was {}is  {}", to_text(world[rank]), to_text(mutant->world[rank]));
    }
  }
}

int run() {
  std::vector<Tally> tallies(defects().size());
  for (const Algorithm* algorithm : all_algorithms()) {
    const bool many_shapes = algorithm->needs.coding != Coding::none || algorithm->needs.by_site;
    const uint64_t seeds = many_shapes ? kFewSeeds : kSeeds;
    for (const int32_t ranks : {2, 3, 5, 8}) {
      if (!serves(*algorithm, ranks)) continue;
      for (const Shape& shape : shapes_of(*algorithm, ranks)) {
        const auto world = build_world(*algorithm, shape);
        if (!world.ok()) return fmt::print(stderr, "{}\n", world.status().text()), 1;
        for (size_t kind = 0; kind < defects().size(); ++kind) {
          for (uint64_t seed = 0; seed < seeds; ++seed) damage(describe(*algorithm, shape), *world, defects()[kind], seed, tallies[kind]);
        }
      }
    }
  }
  bool passed = true;
  for (size_t kind = 0; kind < defects().size(); ++kind) {
    const Tally& tally = tallies[kind];
    fmt::print("{:26} killed {:5} of {:5}, equivalent {:4}, survived {}\n", defects()[kind].name, tally.killed, tally.total,
               tally.equivalent, tally.survivors());
    passed = passed && tally.total > 0 && tally.survivors() == 0;
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace isthmus::plan

int main() { return isthmus::plan::run(); }
