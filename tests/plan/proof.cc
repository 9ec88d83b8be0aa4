// SPDX-License-Identifier: Apache-2.0
// Proves every algorithm of both registries, with no data and no network: for many rank counts, roots, element counts, in place and
// out, with sums, averages and scaled inputs. Prints the number of cases and the seconds of CPU; fails at each case that is wrong.
#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "plan/check.h"
#include "worlds.h"

namespace isthmus::plan {
namespace {

std::vector<int32_t> rank_counts() {
  std::vector<int32_t> counts;
  for (int32_t ranks = 1; ranks <= 33; ++ranks) counts.push_back(ranks);
  for (const int32_t ranks : {48, 64, 127, 128}) counts.push_back(ranks);
  return counts;
}

struct Tally {
  uint64_t cases = 0;
  uint64_t failures = 0;
  void count(const Status& status, const std::string& what, uint64_t counted = 1) {
    cases += counted;
    if (status.ok()) return;
    ++failures;
    if (failures <= 20) fmt::print(stderr, "FAILED {}: {}\n", what, status.text());
  }
};

void prove(const Algorithm& algorithm, const Shape& shape, Tally& tally) {
  const std::string what = describe(algorithm, shape);
  const auto world = build_world(algorithm, shape);
  if (!world.ok()) return tally.count(world.status(), what);
  const auto ranks = static_cast<uint64_t>(shape.group.size);
  constexpr uint64_t kPrime = 1009, kLarge = uint64_t{1} << 31;
  const std::array<uint64_t, 6> counts = {0, 1, ranks - 1, ranks, kPrime, kLarge};
  tally.count(check_symbolic(*world, counts, ranks), what, counts.size());
  // A message without bytes only removes waits (plan/walk.h), so the proof for a count that fills every cell is the proof for all.
  for (const Reads reads : {Reads::pushed, Reads::in_place}) tally.count(check_deadlock(*world, kLarge, reads), what);
}

int run() {
  const auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };  // of CPU, whoever else is busy
  Tally total;
  for (const Algorithm* algorithm : all_algorithms()) {
    const double begin = seconds();
    Tally tally;
    for (const int32_t ranks : rank_counts()) {
      if (!serves(*algorithm, ranks)) continue;
      for (const Shape& shape : shapes_of(*algorithm, ranks)) prove(*algorithm, shape, tally);
    }
    fmt::print("{:16} {:20} {:10} {:6} cases {:6.2f} s\n", isthmus::name_of(algorithm->collective), algorithm->name,
               algorithm->needs.coding == Coding::none ? "" : "compressed", tally.cases, seconds() - begin);
    total.cases += tally.cases;
    total.failures += tally.failures;
  }
  fmt::print("{} cases, {} failures, {:.1f} s\n", total.cases, total.failures, seconds());
  return total.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace isthmus::plan

int main() { return isthmus::plan::run(); }
