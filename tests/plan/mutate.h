// SPDX-License-Identifier: Apache-2.0
// Damages plans, one random defect at a time, as a careless algorithm or a broken builder might. Called by tests/plan/mutants.cc.
// What follows from the steps (dependencies, message numbers, slot order) is derived anew after each edit, except where just that
// is damaged, so that the checkers must find the defect itself and not its debris.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// A damaged world. `equivalent`: by one of the rules in equivalence.h it means the same as the original, for the reason given.
struct Mutant {
  std::vector<Plan> world;
  const char* equivalent = nullptr;
};

/// A kind of defect; `make` gives nothing where the world has no step that could suffer it.
struct Defect {
  std::string_view name;
  std::optional<Mutant> (*make)(const std::vector<Plan>& world, CounterRng& rng);
};

std::span<const Defect> defects();

}  // namespace isthmus::plan
