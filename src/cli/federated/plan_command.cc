// SPDX-License-Identifier: Apache-2.0
// `isthmus federated plan`: which clusters a file's clients make, and what a second file would change.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/checks.h"
#include "cli/federated/commands.h"
#include "cli/federated/number_table.h"
#include "cli/json_text.h"
#include "cli/planner/inputs.h"
#include "federated/cohort_state.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHelp =
    "Clusters clients by their representations, without any network: which clusters there are, how far apart, how unlike their clients.\n"
    "\n"
    "With --after a second file holds what clients report later: who moves, how far centres move (rho), whether all are clustered anew.";

constexpr std::string_view kFooter =
    "FILE has a line for each client, numbers separated by commas. If the first line holds names, columns named 'client' (a number),\n"
    "'samples' and 'group' are that; every other column is part of the representation. Without names all columns are, and clients are\n"
    "numbered from 0. Cells may stand in double quotes. Empty lines and lines that begin with # do not count. Samples tell noise from\n"
    "groups: without them clusters are counted by silhouette. If both files hold names, these are the same in the same order.\n"
    "\n"
    "--rep says what the numbers are: label (shares, not negative, sum 1 within 1e-4; compared by l1), embedding, class-means (l2),\n"
    "gradient (of length 1 within 1e-3, l2).\n"
    "\n"
    "Printed are the clusters with their sizes and the distances of their clients to the centre (mean, 95th percentile, largest), then\n"
    "theta (mean distance between centres), the silhouette, and rho = largest move of a centre / theta with what it leads to. With a\n"
    "column 'group' also how well clusters and groups agree (adjusted Rand index). --assignment lists every client's cluster.\n"
    "\n"
    "Exit code: 0; 1 if a file cannot be read or understood, naming its line and column; 2 if the command line is wrong.\n"
    "\n"
    "Examples:\n"
    "  isthmus federated plan monday.csv\n"
    "  isthmus federated plan monday.csv --after tuesday.csv --json\n"
    "  isthmus federated plan embeddings.csv --rep embedding --k 4 --assignment";

struct Words {
  std::string file, after, rep = "label", k_rule;
  federated::CohortConfig config;
  bool json = false, assignment = false;
};

/// A state of the cohort after one file.
struct Step {
  std::string file;
  federated::DriftReport report;
  std::optional<double> agreement;
};

Result<ClientTable> read_clients(const std::string& path) {
  ISTHMUS_ASSIGN(const std::string text, read_named_file(path));
  Result<ClientTable> clients = parse_clients(text);
  return clients.ok() ? std::move(clients) : clients.status().with_context(path);
}

Result<Step> take(federated::CohortState& cohort, const std::string& path, const ClientTable& clients, uint64_t sequence) {
  if (clients.dims != cohort.config().rep.dims) {
    return invalid_argument(
        fmt::format("{}: representations of {} numbers, where the first file has {}", path, clients.dims, cohort.config().rep.dims));
  }
  for (size_t row = 0; row < clients.ids.size(); ++row) {
    const Status taken =
        cohort.report(cohort.config().rep,
                      {.client = clients.ids[row], .sequence = sequence, .samples = clients.samples[row], .values = clients.points()[row]});
    if (!taken.ok()) return taken.with_context(fmt::format("{}: line {}", path, clients.line_of[row]));
  }
  Step step{.file = path, .report = {}, .agreement = {}};
  auto report = cohort.update();
  if (!report.ok()) return report.status().with_context(path);
  step.report = *std::move(report);
  if (clients.groups.empty()) return step;
  std::vector<uint32_t> found;
  for (const uint64_t id : clients.ids) found.push_back(cohort.cluster_of(id));
  step.agreement = federated::adjusted_rand_index(found, clients.groups);
  return step;
}

/// Representations are compared number by number, so that columns of other names, or in another order, would tell nonsense.
Status same_columns(const ClientTable& first, const ClientTable& later) {
  if (first.names.empty() || later.names.empty()) return {};
  const auto [one, other] = std::mismatch(first.names.begin(), first.names.end(), later.names.begin(), later.names.end());
  if (one == first.names.end() || other == later.names.end()) return {};  // another number of columns is refused where clients are taken
  return invalid_argument(
      fmt::format("column '{}', where the first file has '{}'; both need the same columns in the same order", *other, *one));
}

void print_step(const Step& step) {
  const federated::DriftReport& report = step.report;
  fmt::print("# {}: {} clients, epoch {}\n", step.file, report.clients, report.epoch);
  fmt::print("# {:>7} {:>9} {:>9} {:>9} {:>9}\n", "cluster", "clients", "mean", "p95", "max");
  for (size_t k = 0; k < report.clusters.size(); ++k) {
    const federated::Heterogeneity& one = report.clusters[k];
    fmt::print("{:>9} {:>9} {:>9.4f} {:>9.4f} {:>9.4f}\n", k, one.size, one.mean, one.p95, one.max);
  }
  fmt::print("theta {:.4f}, silhouette {:.3f}", report.theta, report.silhouette);
  if (step.agreement) fmt::print(", agreement with groups {:.3f}", *step.agreement);
  fmt::print("\n");
  if (report.cause == federated::Cause::first) return;
  fmt::print("rho {:.4f} (tau {:.4f}): {} moved, {} joined; {}\n", report.rho, report.tau, report.migrated, report.joined,
             report.reclustered ? fmt::format("clustered anew, because: {}", name_of(report.cause)) : "not clustered anew");
}

Json step_json(const Step& step) {
  const federated::DriftReport& report = step.report;
  Json clusters = Json::array();
  for (const federated::Heterogeneity& one : report.clusters) {
    clusters.push_back({{"size", one.size}, {"mean", one.mean}, {"p95", one.p95}, {"max", one.max}});
  }
  Json json = {{"file", step.file},
               {"epoch", report.epoch},
               {"clients", report.clients},
               {"k", report.k},
               {"reclustered", report.reclustered},
               {"cause", name_of(report.cause)},
               {"joined", report.joined},
               {"migrated", report.migrated},
               {"rho", report.rho},
               {"tau", report.tau},
               {"theta", report.theta},
               {"silhouette", report.silhouette},
               {"clusters", clusters}};
  json["agreement"] = step.agreement ? Json(*step.agreement) : Json(nullptr);
  return json;
}

void print_all(const federated::CohortState& cohort, const std::vector<Step>& steps, const Words& words) {
  const std::vector<uint64_t> ids = cohort.ids();
  const std::vector<uint32_t> clusters = cohort.assignment();
  if (!words.json) {
    for (const Step& step : steps) print_step(step);
    if (words.assignment) fmt::print("# client, cluster\n");
    for (size_t i = 0; words.assignment && i < ids.size(); ++i) fmt::print("{},{}\n", ids[i], clusters[i]);
    return;
  }
  Json json = {{"schema", "isthmus.federated.plan/1"}, {"steps", Json::array()}};
  for (const Step& step : steps) json["steps"].push_back(step_json(step));
  if (words.assignment) {
    json["assignment"] = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) json["assignment"].push_back({{"client", ids[i]}, {"cluster", clusters[i]}});
  }
  fmt::print("{}\n", json_text(json, 2));
}

Status plan(const Words& words) {
  ISTHMUS_ASSIGN(const ClientTable clients, read_clients(words.file));
  federated::CohortConfig config = words.config;
  if (words.k_rule.empty() && !clients.has_samples && config.clusters.k_fixed == 0) {
    config.clusters.rule = federated::KRule::silhouette;
    fmt::print(stderr,
               "isthmus federated plan: {} has no column 'samples', so that noise cannot be told from groups: clusters are counted by "
               "silhouette (--k-rule says otherwise)\n",
               words.file);
  }
  config.rep.dims = clients.dims;
  config.trigger.cooldown_rounds = 0;  // files are not rounds
  federated::CohortState cohort(config);
  ISTHMUS_ASSIGN(Step first, take(cohort, words.file, clients, 1));
  std::vector<Step> steps = {std::move(first)};
  if (!words.after.empty()) {
    ISTHMUS_ASSIGN(const ClientTable later, read_clients(words.after));
    ISTHMUS_TRY(same_columns(clients, later).with_context(words.after));
    ISTHMUS_ASSIGN(Step second, take(cohort, words.after, later, 2));
    steps.push_back(std::move(second));
  }
  print_all(cohort, steps, words);
  return {};
}

/// What the words name, into the configuration.
Status understand(Words& words) {
  const uint32_t k = words.config.clusters.k_fixed;
  if (k != 0 && words.config.clusters.k_max != 0) {
    return invalid_argument(fmt::format("--k-max bounds how many clusters are found, where --k {} says how many there are", k));
  }
  ISTHMUS_ASSIGN(words.config.rep.kind, federated::parse_rep_kind(words.rep));
  ISTHMUS_ASSIGN(words.config.clusters.rule, federated::parse_k_rule(words.k_rule.empty() ? "split" : words.k_rule));
  words.config.clusters.metric = federated::metric_of(words.config.rep.kind);
  return {};
}

}  // namespace

void add_federated_plan(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("plan", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  federated::CohortConfig& config = words->config;
  command->add_option("file", words->file, "FILE of clients and their representations")->required();
  command->add_option("--after", words->after, "FILE of what clients report later");
  command->add_option("--rep", words->rep, "label, embedding, class-means, gradient")->capture_default_str();
  command->add_option("--k", config.clusters.k_fixed, "Clusters (default: found by --k-rule)")->check(CLI::Range(0U, 1024U));
  command->add_option("--k-rule", words->k_rule, "How clusters are counted: split, silhouette (default: split where FILE has samples)");
  command->add_option("--k-max", config.clusters.k_max, "At most so many are found (default: 8, or the root of the clients)")
      ->check(CLI::Range(0U, 1024U));
  command
      ->add_option("--min-cohort", config.clusters.min_cohort,
                   "Clusters with fewer clients are dissolved into their neighbours, also against --k")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  command->add_option("--tau", config.trigger.tau, "Cluster anew above this rho (default: 1/3)")->check(finite_in(0, 100));
  command->add_option("--seed", config.clusters.seed, "Of everything that is random")->transform(whole_up_to())->capture_default_str();
  command->add_flag("--assignment", words->assignment, "Also every client's cluster, after the last file");
  command->add_flag("--json", words->json, "As JSON");
  command->footer(std::string(kFooter));
  command->callback([words, &outcome] {
    Status done = understand(*words);
    if (!done.ok()) {
      outcome.exit_code = 2;
    } else if (done = plan(*words); !done.ok()) {
      outcome.exit_code = 1;
    }
    if (!done.ok()) fmt::print(stderr, "isthmus federated plan: {}\n", done.text());
  });
}

}  // namespace isthmus::cli
