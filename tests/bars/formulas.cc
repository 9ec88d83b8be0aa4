// SPDX-License-Identifier: Apache-2.0
// V1: closed forms against the plans themselves, run in virtual time on random machines. On links of one kind the textbook's forms must be
// within 2 % (5 % where segments follow each other); on mixed links none may be above what the walk takes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bars.h"
#include "collectives/registry.h"
#include "machines.h"
#include "topology/planner/search.h"

namespace isthmus::bars {
namespace {

constexpr uint64_t kEnoughEvents = UINT64_MAX;
constexpr double kWithin = 0.02;
/// Cells are rounded to whole elements and multiples of 16, which matters in small buffers only.
constexpr uint64_t kLeastBytes = 1 << 20;

struct Errors {
  std::vector<double> relative;
  int above = 0;  ///< cases in which the form took longer than the walk
};
using Table = std::map<std::pair<Collective, std::string>, Errors>;

/// Forms that are the textbook's on links of one kind; the others are bounds only.
bool is_exact(const plan::Algorithm& algorithm, int32_t ranks) {
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (algorithm.name == "ring" || algorithm.name == "chain") return true;
  return power_of_two && (algorithm.name == "recursive_doubling" || algorithm.name == "halving_doubling" || algorithm.name == "halving" ||
                          algorithm.name == "doubling");
}

void compare(const collectives::Choice& choice, uint64_t bytes, topology::Pricer& pricer, Table& table) {
  const auto price = pricer.price(choice, bytes);
  const plan::Algorithm& algorithm = *choice.algorithm;
  if (!price.ok() || !price->walked) {
    fmt::print("{} {}: {}\n", name_of(algorithm.collective), algorithm.name, price.ok() ? "not walked" : price.status().text());
    return;
  }
  const bool usual = choice.across == plan::Across::direct;
  Errors& errors =
      table[{algorithm.collective, fmt::format("{}{}{}", algorithm.name, usual ? "" : " ", usual ? "" : name_of(choice.across))}];
  const auto walked = static_cast<double>(std::max<TimeNs>(price->time_ns, 1));
  errors.relative.push_back(std::abs(static_cast<double>(price->bound_ns) - walked) / walked);
  // Rounding to whole nanoseconds happens at every step.
  if (static_cast<double>(price->bound_ns) > walked * 1.0001 + 500) ++errors.above;
}

void compare(const topology::Scene& scene, uint64_t bytes, bool exact_only, Table& table) {
  topology::Pricer pricer(scene, kEnoughEvents);
  for (const plan::Algorithm* algorithm : collectives::registry()) {
    if (algorithm->collective == Collective::barrier || !serves(*algorithm, scene.ranks())) continue;
    if (algorithm->needs.by_site && scene.layout().count(topology::Level::building) < 2) continue;
    if (exact_only && !is_exact(*algorithm, scene.ranks())) continue;
    for (const uint32_t leaders : pricer.formulas().leaders(*algorithm)) {
      for (const plan::Across across : pricer.formulas().ways_across(*algorithm))
        compare({algorithm, 1, leaders, across}, bytes, pricer, table);
    }
  }
}

void print(const char* title, Table& table) {
  fmt::print("{}\n{:<16}{:<30}{:>7}{:>12}{:>10}{:>8}\n", title, "collective", "algorithm", "cases", "median err", "max err", "above");
  for (auto& [key, errors] : table) {
    std::sort(errors.relative.begin(), errors.relative.end());
    fmt::print("{:<16}{:<30}{:>7}{:>10.2f} %{:>8.2f} %{:>8}\n", name_of(key.first), key.second, errors.relative.size(),
               100 * errors.relative[errors.relative.size() / 2], 100 * errors.relative.back(), errors.above);
  }
}

}  // namespace

bool formulas(const Options& options) {
  std::mt19937_64 random(options.seed);
  Table uniform, mixed;
  for (int trial = 0; trial < options.trials; ++trial) {
    compare(random_scene(random, Links::uniform), std::max(random_bytes(random), kLeastBytes), true, uniform);
    compare(random_scene(random, Links::mixed), random_bytes(random), false, mixed);
  }
  print("V1: closed forms against virtual time, links of one kind (bar: 2 %)", uniform);
  print("V1: mixed links (bar: none above)", mixed);
  bool reached = true;
  for (const auto& [key, errors] : uniform) reached = reached && errors.relative.back() <= kWithin;
  for (const auto& [key, errors] : mixed) reached = reached && errors.above == 0;
  fmt::print("V1 {}\n", reached ? "reached" : "MISSED");
  return reached;
}

}  // namespace isthmus::bars
