// SPDX-License-Identifier: Apache-2.0
// The planner's bars: what it must reach, each a table and a verdict. Run by ./dev bar and, with fewer trials, by the tests.
#pragma once

#include <cstdint>
#include <string>

namespace isthmus::bars {

struct Options {
  uint64_t seed = 1;
  int trials = 200;
};

/// Each prints its figures and returns whether they are within the bar.
bool formulas(const Options& options);       ///< V1: closed forms against plans run in virtual time
bool planner_speed(const Options& options);  ///< V8: how long planning takes

}  // namespace isthmus::bars
