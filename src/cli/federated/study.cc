// SPDX-License-Identifier: Apache-2.0
// study.h.
#include "cli/federated/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "federated/chunks.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is told of a method: a name and how a summary has it.
struct Figure {
  std::string_view name;
  std::function<double(const Summary&)> of;
};

constexpr std::string_view kAgreement = "adjusted_rand_index";

std::vector<Figure> figures() {
  return {{"mean_accuracy", [](const Summary& s) { return s.mean_accuracy; }},
          {"final_accuracy", [](const Summary& s) { return s.final_accuracy; }},
          {"global_reclusterings", [](const Summary& s) { return static_cast<double>(s.global_reclusterings); }},
          {"rounds_to_target", [](const Summary& s) { return static_cast<double>(s.rounds_to_target); }},
          {"rounds_to_recover", [](const Summary& s) { return static_cast<double>(s.rounds_to_recover); }},
          {kAgreement, [](const Summary& s) { return s.mean_agreement; }},
          {"clusters", [](const Summary& s) { return s.final_k; }},
          {"bytes_down_per_round", [](const Summary& s) { return s.bytes_down; }},
          {"bytes_up_per_round", [](const Summary& s) { return s.bytes_up; }}};
}

double mean_of(const std::vector<Summary>& summaries, const std::function<double(const Summary&)>& of) {
  double sum = 0;
  for (const Summary& summary : summaries) sum += of(summary);
  return summaries.empty() ? 0 : sum / static_cast<double>(summaries.size());
}

double mean_of(const std::vector<Summary>& summaries, double Summary::*member) {
  return mean_of(summaries, [member](const Summary& summary) { return summary.*member; });
}

double mean_of(const std::vector<Summary>& summaries, uint32_t Summary::*member) {
  return mean_of(summaries, [member](const Summary& summary) { return static_cast<double>(summary.*member); });
}

bool has_groups(const Study& study) { return study.rules.episode.scenario != Scenario::dirichlet; }
bool has_reclusterings(Method method) { return method != Method::fedavg && method != Method::ifca && method != Method::oracle; }

std::string line_of(const Study& study, Method method, const std::vector<Summary>& its) {
  const std::string agreement = has_groups(study) ? fmt::format("{:.2f}", mean_of(its, &Summary::mean_agreement)) : "-";
  const std::string global = has_reclusterings(method) ? fmt::format("{:.1f}", mean_of(its, &Summary::global_reclusterings)) : "-";
  return fmt::format("{:<17} {:>8.3f} {:>8.3f} {:>8.1f} {:>9.1f} {:>6} {:>7} {:>6.1f} {:>9.1f} {:>9.1f}\n", name_of(method),
                     mean_of(its, &Summary::mean_accuracy), mean_of(its, &Summary::final_accuracy),
                     mean_of(its, &Summary::rounds_to_target), mean_of(its, &Summary::rounds_to_recover), agreement, global,
                     mean_of(its, &Summary::final_k), mean_of(its, &Summary::bytes_down) / 1024, mean_of(its, &Summary::bytes_up) / 1024);
}

std::string clusters_words(const MethodRules& rules) {
  return rules.k > 0 ? fmt::format("{} clusters, as told", rules.k) : fmt::format("clusters found by rule '{}'", name_of(rules.k_rule));
}

}  // namespace

Result<Study> run_study(const StudyRules& rules, const Digits& digits) {
  Study study{.rules = rules, .source = digits.source, .histories = {}, .summaries = {}};
  study.histories.assign(rules.methods.size(), std::vector<History>(rules.seeds));
  study.summaries.assign(rules.methods.size(), std::vector<Summary>(rules.seeds));
  std::vector<Status> failures(size_t{rules.seeds} * rules.methods.size());
  std::vector<Episode> episodes;
  for (uint32_t i = 0; i < rules.seeds; ++i) episodes.push_back(make_episode(rules.episode, digits, rules.first_seed + i));
  federated::for_each(failures.size(), rules.threads, [&](size_t job) {
    const size_t method = job % rules.methods.size(), seed = job / rules.methods.size();
    MethodRules its = rules.method;
    its.seed = rules.first_seed + seed;
    Result<History> history = run_method(rules.methods[method], episodes[seed], its);
    if (!history.ok()) {
      failures[job] = history.status().with_context(name_of(rules.methods[method]));
      return;
    }
    study.summaries[method][seed] = summarise(*history, rules.episode, rules.target);
    study.histories[method][seed] = std::move(*history);
  });
  for (const Status& failure : failures) ISTHMUS_TRY(failure);
  return study;
}

std::string study_text(const Study& study) {
  const EpisodeRules& episode = study.rules.episode;
  std::string text = fmt::format("# scenario {}, seeds {} to {}, {} clients of {} samples, {} rounds; {}\n", name_of(episode.scenario),
                                 study.rules.first_seed, study.rules.first_seed + study.rules.seeds - 1, episode.clients, episode.samples,
                                 episode.rounds, clusters_words(study.rules.method));
  text += fmt::format("# images: {}\n", study.source);
  text += fmt::format("# rounds to {:.2f}: at first, and after the big drift of round {}; the window's length where it is not reached\n",
                      study.rules.target, episode.big_drift);
  text += fmt::format("# {:<15} {:>8} {:>8} {:>8} {:>9} {:>6} {:>7} {:>6} {:>9} {:>9}\n", "method", "mean acc", "final", "to target",
                      "recover", "ARI", "global", "K", "KiB down", "KiB up");
  for (size_t m = 0; m < study.rules.methods.size(); ++m) text += line_of(study, study.rules.methods[m], study.summaries[m]);
  return text;
}

std::string study_json(const Study& study) {
  const EpisodeRules& episode = study.rules.episode;
  Json methods = Json::object();
  for (size_t m = 0; m < study.rules.methods.size(); ++m) {
    Json its = Json::object(), per_seed = Json::object();
    for (const Figure& figure : figures()) {
      if (!has_groups(study) && figure.name == kAgreement) {
        its[figure.name] = per_seed[figure.name] = nullptr;
        continue;
      }
      its[figure.name] = mean_of(study.summaries[m], figure.of);
      per_seed[figure.name] = Json::array();
      for (const Summary& summary : study.summaries[m]) per_seed[figure.name].push_back(figure.of(summary));
    }
    its["per_seed"] = std::move(per_seed);
    methods[std::string(name_of(study.rules.methods[m]))] = std::move(its);
  }
  const MethodRules& method = study.rules.method;
  const Json all = {{"schema", "isthmus.federated.simulation/1"},
                    {"scenario", name_of(episode.scenario)},
                    {"images", study.source},
                    {"seeds", study.rules.seeds},
                    {"first_seed", study.rules.first_seed},
                    {"clients", episode.clients},
                    {"samples", episode.samples},
                    {"rounds", episode.rounds},
                    {"k", method.k},
                    {"k_rule", name_of(method.k_rule)},
                    {"tau", method.tau},
                    {"target", study.rules.target},
                    {"methods", methods}};
  return json_text(all, 2);
}

}  // namespace isthmus::cli
