// SPDX-License-Identifier: Apache-2.0
// Random jobs and links for the planner's bars and tests, from a seed. Nothing here fails.
#pragma once

#include <cstdint>
#include <random>

#include "topology/planner/scene.h"

namespace isthmus::bars {

enum class Links : uint8_t {
  uniform,  ///< all pairs alike, nothing shared
  mixed,    ///< buildings with slow links and shared cuts between them
};

/// A job of 2 to 24 ranks with random latencies, overheads, rates and speeds of adding.
topology::Scene random_scene(std::mt19937_64& random, Links links);

/// From 4 bytes to 64 MiB, evenly by powers of two.
uint64_t random_bytes(std::mt19937_64& random);

}  // namespace isthmus::bars
