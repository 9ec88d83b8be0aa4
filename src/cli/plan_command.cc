// SPDX-License-Identifier: Apache-2.0
// `isthmus plan show`: builds an algorithm's plans, as the library would, and prints them.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/planner/inputs.h"
#include "codec/named.h"
#include "collectives/registry.h"
#include "collectives/select.h"
#include "plan/builder.h"
#include "plan/cost.h"
#include "plan/print.h"
#include "plan/rules.h"

namespace isthmus::cli {
namespace {

struct PlanWords {
  std::string algorithm, op = "sum", format = "text", codec = "none", across = "direct";
  int32_t ranks = 2;
  std::optional<int32_t> rank;
  int32_t root = 0, sites = 1;
  uint32_t segments = 1, leaders = 0;
  bool in_place = false;
  std::string bytes = "1M";  // trace: of the larger buffer
  SceneWords scene;
  double latency_us = 2, gb_per_s = 5;
};

constexpr size_t kElementBytes = 4;

/// The full name of the algorithm that may have been meant, or "".
std::string nearest_algorithm(collectives::Algorithms list, std::string_view name) {
  std::vector<std::string> full;
  std::vector<std::string_view> candidates;
  for (const plan::Algorithm* algorithm : list) {
    full.push_back(fmt::format("{}:{}", name_of(algorithm->collective), algorithm->name));
    candidates.push_back(algorithm->name);
  }
  candidates.insert(candidates.end(), full.begin(), full.end());
  return std::string(nearest(name, candidates));
}

/// "allreduce:ring", or "ring" where only one collective has an algorithm of that name.
Result<const plan::Algorithm*> find_algorithm(collectives::Algorithms list, std::string_view name) {
  const plan::Algorithm* found = nullptr;
  for (const plan::Algorithm* algorithm : list) {
    const std::string full = fmt::format("{}:{}", name_of(algorithm->collective), algorithm->name);
    if (name == full) return algorithm;
    if (name != algorithm->name) continue;
    if (found != nullptr) {
      return invalid_argument(fmt::format("'{}' is an algorithm of {} and {}; write COLLECTIVE:{}", name, name_of(found->collective),
                                          name_of(algorithm->collective), name));
    }
    found = algorithm;
  }
  if (found != nullptr) return found;
  const std::string meant = nearest_algorithm(list, name);
  return invalid_argument(fmt::format("there is no algorithm '{}'{}; 'isthmus algorithms' lists them", name,
                                      meant.empty() ? "" : fmt::format(", but there is '{}'", meant)));
}

Result<ReduceOp> find_op(std::string_view name) {
  for (int op = 0; op < kReduceOps; ++op) {
    if (name_of(static_cast<ReduceOp>(op)) == name) return static_cast<ReduceOp>(op);
  }
  return invalid_argument(fmt::format("--op: '{}' is none of sum, prod, max, min, avg", name));
}

/// As even as can be, neighbours together.
std::vector<int32_t> sites_of(const PlanWords& words, const topology::Scene* scene) {
  if (scene != nullptr) return scene->layout().divisions();
  std::vector<int32_t> sites;
  sites.reserve(static_cast<size_t>(words.ranks));
  for (int32_t rank = 0; rank < words.ranks; ++rank) sites.push_back(static_cast<int32_t>(int64_t{rank} * words.sites / words.ranks));
  return sites;
}

/// `codecs` holds the codec that the plans refer to.
Result<std::vector<plan::Plan>> build_world(const PlanWords& words, const topology::Scene* scene, codec::Codecs& codecs) {
  ISTHMUS_ASSIGN(const codec::Named* named, codecs.get(words.codec, static_cast<uint32_t>(words.ranks)));
  const collectives::Algorithms list = named->codec == nullptr ? collectives::registry() : collectives::compressed_registry();
  ISTHMUS_ASSIGN(const plan::Algorithm* algorithm, find_algorithm(list, words.algorithm));
  ISTHMUS_ASSIGN(const ReduceOp op, find_op(words.op));
  if (is_rooted(algorithm->collective) && words.root >= words.ranks) {
    return invalid_argument(fmt::format("--root {}: there are only ranks 0 to {}", words.root, words.ranks - 1));
  }
  ISTHMUS_ASSIGN(const plan::Across across, plan::parse_across(words.across));
  if (!collectives::allows_across(*algorithm, across)) {
    return invalid_argument(fmt::format("--across {}: {} {} does not run so; 'isthmus algorithms' says which tunables there are",
                                        words.across, name_of(algorithm->collective), algorithm->name));
  }
  const std::vector<int32_t> sites = sites_of(words, scene);
  std::vector<plan::Plan> world;
  for (int32_t rank = 0; rank < words.ranks; ++rank) {
    const plan::Shape shape = {.collective = algorithm->collective,
                               .group = {.size = words.ranks, .position = rank},
                               .root = is_rooted(algorithm->collective) ? words.root : -1,
                               .in_place = words.in_place,
                               .op = op,
                               .segments = words.segments,
                               .codec = named->codec,
                               .sites = sites,
                               .leaders = words.leaders,
                               .across = across};
    ISTHMUS_ASSIGN(world.emplace_back(), plan::build(*algorithm, shape));
  }
  return world;
}

/// The plans in virtual time, on the scene's links, or without one on links of one kind.
Result<std::string> trace(const std::vector<plan::Plan>& world, const PlanWords& words, const topology::Scene* scene) {
  ISTHMUS_ASSIGN(const uint64_t bytes, parse_bytes(words.bytes));
  const double rate = words.gb_per_s * 1e9;
  const plan::LinkCost link = {.latency_ns = std::llround(words.latency_us * 1e3), .rate_bytes_per_s = rate};
  const plan::CostModel uniform = {
      .link = [link](int, int) { return link; }, .reduce_bytes_per_s = rate, .copy_bytes_per_s = rate, .shared = nullptr};
  ISTHMUS_ASSIGN(const plan::Cost cost, plan::cost(world, bytes / kElementBytes / world[0].grid.blocks, kElementBytes,
                                                   scene != nullptr ? scene->model() : uniform, {.with_times = true}));
  return plan::to_chrome_trace(world, cost);
}

Status show(PlanWords words) {
  std::optional<topology::Scene> scene;
  if (!words.scene.layout.empty()) {
    ISTHMUS_ASSIGN(scene, make_scene(words.scene));
    words.ranks = scene->ranks();
  }
  const topology::Scene* on = scene ? &*scene : nullptr;
  if (words.rank && *words.rank >= words.ranks) {
    return invalid_argument(fmt::format("--rank {}: there are only ranks 0 to {}", *words.rank, words.ranks - 1));
  }
  codec::Codecs codecs;
  ISTHMUS_ASSIGN(const std::vector<plan::Plan> world, build_world(words, on, codecs));
  if (words.format == "dot") {
    fmt::print("{}", plan::to_dot(world));
    return {};
  }
  if (words.format == "trace") {
    ISTHMUS_ASSIGN(const std::string text, trace(world, words, on));
    fmt::print("{}", text);
    return {};
  }
  for (const plan::Plan& one : world) {
    if (!words.rank || one.rank == *words.rank) fmt::print("{}", plan::to_text(one));
  }
  return {};
}

}  // namespace

void add_plan(CLI::App& app, Outcome& outcome) {
  CLI::App* plan = app.add_subcommand("plan", "Plans a job, and shows the plans that the library runs");
  plan->require_subcommand(1);
  add_plan_make(*plan, outcome);
  CLI::App* command = plan->add_subcommand("show", "Prints an algorithm's plan for one rank or all");
  const auto words = std::make_shared<PlanWords>();
  command->add_option("algorithm", words->algorithm, "COLLECTIVE:NAME, or NAME alone where it is unique; see 'isthmus algorithms'")
      ->required();
  command->add_option("-n,--ranks", words->ranks, "Ranks")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--rank", words->rank, "Only this rank's plan")->check(CLI::Range(0, 4095));
  command->add_option("--root", words->root, "Root, for broadcast and reduce")->check(CLI::Range(0, 4095))->capture_default_str();
  command->add_option("--op", words->op, "sum, prod, max, min or avg")->capture_default_str();
  command->add_option("--leaders", words->leaders, "Of each site, for hierarchies; 0: as many as the smallest has")->capture_default_str();
  command
      ->add_option("--across", words->across,
                   "How those who speak for sites exchange, for hierarchies: direct, ring, one_shot or recursive_doubling")
      ->capture_default_str();
  command->add_option("--segments", words->segments, "Pipeline segments, for algorithms that have them")->capture_default_str();
  command->add_option("--codec", words->codec, "none, or what a compressed algorithm sends: thc, bf16, int8, int4, thc:b=8...")
      ->capture_default_str();
  command->add_option("--sites", words->sites, "Sets of ranks that are close to each other, for hierarchies")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_scene_options(*command, words->scene, false);
  command->add_flag("--in-place", words->in_place, "For one buffer that is input and output");
  command->add_option("--format", words->format, "text; of all ranks: dot (Graphviz), trace (Chrome's, of a run on modelled links)")
      ->check(CLI::IsMember({"text", "dot", "trace"}))
      ->capture_default_str();
  command->add_option("--bytes", words->bytes, "trace: size of the larger buffer")->capture_default_str();
  command->add_option("--latency", words->latency_us, "trace: latency of a link in microseconds")
      ->check(finite_in(0, 1e9))
      ->capture_default_str();
  command->add_option("--rate", words->gb_per_s, "trace: rate of a link, of adding and of copying, in GB/s")
      ->check(finite_in(1e-6, 1e6))
      ->capture_default_str();
  command->callback([words, &outcome] {
    if (const Status shown = show(*words); !shown.ok()) {
      fmt::print(stderr, "isthmus: {}\n", shown.text());
      outcome.exit_code = shown.code() == Code::invalid_argument ? 2 : 1;
    }
  });
}

}  // namespace isthmus::cli
