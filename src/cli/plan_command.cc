// SPDX-License-Identifier: Apache-2.0
// `isthmus plan show`: builds an algorithm's plans, as the library would, and prints them.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/commands.h"
#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/print.h"

namespace isthmus::cli {
namespace {

struct PlanWords {
  std::string algorithm, op = "sum", format = "text";
  int32_t ranks = 2;
  std::optional<int32_t> rank;
  int32_t root = 0;
  uint32_t segments = 1;
  bool in_place = false;
};

/// "allreduce:ring", or "ring" where only one collective has an algorithm of that name.
Result<const plan::Algorithm*> find_algorithm(std::string_view name) {
  const plan::Algorithm* found = nullptr;
  for (const plan::Algorithm* algorithm : collectives::registry()) {
    const std::string full = fmt::format("{}:{}", name_of(algorithm->collective), algorithm->name);
    if (name == full) return algorithm;
    if (name != algorithm->name) continue;
    if (found != nullptr) {
      return invalid_argument(fmt::format("'{}' is an algorithm of {} and {}; write COLLECTIVE:{}", name, name_of(found->collective),
                                          name_of(algorithm->collective), name));
    }
    found = algorithm;
  }
  if (found == nullptr) return invalid_argument(fmt::format("there is no algorithm '{}'; 'isthmus algorithms' lists them", name));
  return found;
}

Result<ReduceOp> find_op(std::string_view name) {
  for (int op = 0; op < kReduceOps; ++op) {
    if (name_of(static_cast<ReduceOp>(op)) == name) return static_cast<ReduceOp>(op);
  }
  return invalid_argument(fmt::format("--op: '{}' is none of sum, prod, max, min, avg", name));
}

Result<std::vector<plan::Plan>> build_world(const PlanWords& words) {
  ISTHMUS_ASSIGN(const plan::Algorithm* algorithm, find_algorithm(words.algorithm));
  ISTHMUS_ASSIGN(const ReduceOp op, find_op(words.op));
  if (is_rooted(algorithm->collective) && words.root >= words.ranks) {
    return invalid_argument(fmt::format("--root {}: there are only ranks 0 to {}", words.root, words.ranks - 1));
  }
  std::vector<plan::Plan> world;
  for (int32_t rank = 0; rank < words.ranks; ++rank) {
    const plan::Shape shape = {.collective = algorithm->collective,
                               .group = {.size = words.ranks, .position = rank},
                               .root = is_rooted(algorithm->collective) ? words.root : -1,
                               .in_place = words.in_place,
                               .op = op,
                               .segments = words.segments};
    ISTHMUS_ASSIGN(world.emplace_back(), plan::build(*algorithm, shape));
  }
  return world;
}

Status show(const PlanWords& words) {
  if (words.rank && *words.rank >= words.ranks) {
    return invalid_argument(fmt::format("--rank {}: there are only ranks 0 to {}", *words.rank, words.ranks - 1));
  }
  ISTHMUS_ASSIGN(const std::vector<plan::Plan> world, build_world(words));
  if (words.format == "dot") {
    fmt::print("{}", plan::to_dot(world));
    return {};
  }
  for (const plan::Plan& one : world) {
    if (!words.rank || one.rank == *words.rank) fmt::print("{}", plan::to_text(one));
  }
  return {};
}

}  // namespace

void add_plan(CLI::App& app, Outcome& outcome) {
  CLI::App* plan = app.add_subcommand("plan", "Shows the plans that the library runs");
  plan->require_subcommand(1);
  CLI::App* command = plan->add_subcommand("show", "Prints an algorithm's plan for one rank or all");
  const auto words = std::make_shared<PlanWords>();
  command->add_option("algorithm", words->algorithm, "COLLECTIVE:NAME, or NAME alone where it is unique; see 'isthmus algorithms'")
      ->required();
  command->add_option("-n,--ranks", words->ranks, "Ranks")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--rank", words->rank, "Only this rank's plan")->check(CLI::Range(0, 4095));
  command->add_option("--root", words->root, "Root, for broadcast and reduce")->check(CLI::Range(0, 4095))->capture_default_str();
  command->add_option("--op", words->op, "sum, prod, max, min or avg")->capture_default_str();
  command->add_option("--segments", words->segments, "Pipeline segments, for algorithms that have them")->capture_default_str();
  command->add_flag("--in-place", words->in_place, "For one buffer that is input and output");
  command->add_option("--format", words->format, "text, or dot (Graphviz) of all ranks")
      ->check(CLI::IsMember({"text", "dot"}))
      ->capture_default_str();
  command->callback([words, &outcome] {
    if (const Status shown = show(*words); !shown.ok()) {
      fmt::print(stderr, "isthmus: {}\n", shown.text());
      outcome.exit_code = shown.code() == Code::invalid_argument ? 2 : 1;
    }
  });
}

}  // namespace isthmus::cli
