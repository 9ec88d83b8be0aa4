// SPDX-License-Identifier: Apache-2.0
// `isthmus federated simulate`: the command line of a study (study.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/federated/commands.h"
#include "cli/federated/study.h"
#include "cli/federated/timeline.h"
#include "cli/planner/inputs.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kHelp =
    "Trains models for clients whose data drift, in one process, by several methods, and compares them.\n"
    "\n"
    "Clients hold small samples of 8x8 images of digits and train softmax regression by federated averaging. Every ten rounds some "
    "clients\n"
    "change to another group's task, once many do (label: all groups are made anew). All methods see the same clients, data and drift.";

constexpr std::string_view kFooter =
    "SCENARIO says how groups differ and what clients report:\n"
    "  label      which digits they see            shares of labels\n"
    "  rotation   images are turned by quarters    their mean image\n"
    "  concept    digits are called differently    direction of a probe's gradient, sketched to 256 numbers\n"
    "  dirichlet  none: each client has its own    shares of labels\n"
    "             shares of digits (--alpha)\n"
    "\n"
    "Methods:\n"
    "  fedavg            one model for all\n"
    "  ifca              K models travel to every client, which trains the best one; is told K (4 unless --k says otherwise)\n"
    "  static            clusters of the first reports\n"
    "  migrate_only      clients move to the nearest centre\n"
    "  recluster_always  clustered anew at every drift\n"
    "  isthmus           clients move; clustered anew only when centres have moved by more than tau\n"
    "  oracle            is told the groups (dirichlet has none, and no oracle)\n"
    "\n"
    "Columns: accuracy of each client's model on its own task, mean over clients, over all rounds and after the last; rounds until it\n"
    "reaches the target, at first and after the big drift; agreement of clusters with groups (adjusted Rand index); global\n"
    "re-clusterings; clusters at the end; KiB of models and reports per round, to and from all clients together. With several seeds all\n"
    "are means. In a round half of each cluster's clients train, rounded up: 32 in four clusters of 15, 30 in one of 60, so that one "
    "model\n"
    "for all costs a little less.\n"
    "\n"
    "Images are those of scikit-learn if it is installed (Debian: python3-sklearn), else made up, which the output says; FILE holds lines "
    "of\n"
    "64 grey values from 0 to 16 and a digit, separated by commas.\n"
    "\n"
    "These are toy-sized problems: they show that the mechanism works, not what it gains on yours. Exit code: 0; 1 if a file cannot be "
    "read\n"
    "or written; 2 if the command line is wrong.\n"
    "\n"
    "Examples:\n"
    "  isthmus federated simulate label --seeds 5\n"
    "  isthmus federated simulate rotation --k 4 --json\n"
    "  isthmus federated simulate concept --k-rule silhouette --methods ifca,isthmus --timeline concept.svg";

struct Words {
  std::string scenario, methods, k_rule = "split", data, timeline;
  std::optional<double> target;
  StudyRules rules;
  bool json = false;
};

Result<std::vector<Method>> methods_of(const Words& words) {
  std::vector<std::string_view> known;
  for (const Method method : kMethods) known.push_back(name_of(method));
  std::vector<Method> methods;
  for (const std::string_view name : split(words.methods, ',')) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      return invalid_argument(fmt::format("--methods: there is no method '{}'; there are: {}", name, join(known, ", ")));
    methods.push_back(kMethods[found - known.begin()]);
  }
  if (words.methods.empty()) methods.assign(std::begin(kMethods), std::end(kMethods));
  if (methods.empty()) return invalid_argument("--methods names none");
  if (words.methods.empty() && words.scenario == "dirichlet") methods.pop_back();  // there is nothing that an oracle could be told
  return methods;
}

Result<StudyRules> rules_of(const Words& words) {
  StudyRules rules = words.rules;
  ISTHMUS_ASSIGN(rules.episode.scenario, parse_scenario(words.scenario));
  ISTHMUS_ASSIGN(rules.method.k_rule, federated::parse_k_rule(words.k_rule));
  ISTHMUS_ASSIGN(rules.methods, methods_of(words));
  if (rules.episode.scenario == Scenario::dirichlet && std::count(rules.methods.begin(), rules.methods.end(), Method::oracle) > 0) {
    return invalid_argument("--methods: without groups there is no oracle");
  }
  if (rules.method.k > rules.episode.clients) {
    return invalid_argument(fmt::format("--k {}: there are only {} clients", rules.method.k, rules.episode.clients));
  }
  constexpr std::array<double, 4> kTargets = {0.90, 0.85, 0.75, 0.85};
  rules.target = words.target.value_or(kTargets[static_cast<size_t>(rules.episode.scenario)]);
  rules.threads = std::max(1U, std::thread::hardware_concurrency());
  return rules;
}

Status simulate(const StudyRules& rules, const Words& words) {
  ISTHMUS_ASSIGN(const Digits digits, find_digits(words.data));
  ISTHMUS_ASSIGN(const Study study, run_study(rules, digits));
  if (!words.timeline.empty()) ISTHMUS_TRY(write_output(words.timeline, timeline_svg(study)));
  fmt::print("{}\n", words.json ? study_json(study) : std::string(trim(study_text(study))));
  return {};
}

void add_options(CLI::App& command, Words& words) {
  EpisodeRules& episode = words.rules.episode;
  MethodRules& method = words.rules.method;
  command.add_option("scenario", words.scenario, "label, rotation, concept, dirichlet")->required();
  command.add_option("--seeds", words.rules.seeds, "How many episodes")->check(CLI::Range(1U, 1000U))->capture_default_str();
  command.add_option("--seed", words.rules.first_seed, "The first one's seed")->transform(whole_up_to())->capture_default_str();
  command.add_option("--k", method.k, "Clusters (default: found by --k-rule; 0 too)")->check(CLI::Range(0U, 64U));
  command.add_option("--k-rule", words.k_rule, "How clusters are counted: split, silhouette")->capture_default_str();
  command.add_option("--k-max", method.k_max, "At most so many are found")->check(CLI::Range(1U, 64U))->capture_default_str();
  command.add_option("--tau", method.tau, "Re-cluster above this rho (default: 1/3)")->check(finite_in(0, 100));
  command.add_option("--methods", words.methods, "Some of the methods, separated by commas (default: all)");
  command.add_option("--clients", episode.clients, "Clients")->check(CLI::Range(8U, 4096U))->capture_default_str();
  command.add_option("--samples", episode.samples, "Images of each client")->check(CLI::Range(2U, 10000U))->capture_default_str();
  command.add_option("--rounds", episode.rounds, "Rounds; the big drift is in the middle")
      ->check(CLI::Range(20U, 10000U))
      ->capture_default_str();
  command.add_option("--alpha", episode.alpha, "dirichlet: how even clients' shares are")
      ->check(finite_in(0.001, 1000))
      ->capture_default_str();
  command.add_option("--target", words.target, "Accuracy that rounds are counted to (default: 0.90, 0.85, 0.75, 0.85)")
      ->check(finite_in(0, 1));
  command.add_option("--data", words.data, "FILE of images");
  command.add_option("--timeline", words.timeline, "Also draw the first seed into this FILE (SVG)");
  command.add_flag("--json", words.json, "As JSON: an object 'methods' with means over seeds, and 'per_seed' lists in each");
}

}  // namespace

void add_federated_simulate(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("simulate", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  add_options(*command, *words);
  command->footer(std::string(kFooter));
  command->callback([words, &outcome] {
    EpisodeRules& episode = words->rules.episode;
    episode.big_drift = episode.rounds / 2 / episode.drift_every * episode.drift_every;
    const Result<StudyRules> rules = rules_of(*words);
    if (const Status done = rules.ok() ? simulate(*rules, *words) : rules.status(); !done.ok()) {
      fmt::print(stderr, "isthmus federated simulate: {}\n", done.text());
      outcome.exit_code = rules.ok() ? 1 : 2;
    }
  });
}

}  // namespace isthmus::cli
