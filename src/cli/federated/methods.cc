// SPDX-License-Identifier: Apache-2.0
// methods.h. A method is who trains which model in a round; data, draws and training are the same for all.
#include "cli/federated/methods.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "cli/federated/reporter.h"
#include "federated/draws.h"

namespace isthmus::cli {
namespace {

using federated::draws;
using federated::Stream;

constexpr double kSmall = 0.01, kApart = 0.1;  // deviations of first weights; IFCA's must differ, or all clients choose alike

class Federation {
 public:
  Federation(Method method, const Episode& episode, const MethodRules& rules)
      : method_(method),
        episode_(episode),
        rules_(rules),
        clients_(episode.rules.clients),
        data_(clients_),
        task_of_(clients_),
        clusters_(clients_, 0),
        k_told_(rules.k > 0 ? rules.k : episode.groups) {}

  Result<History> run() {
    History history;
    take_changes(0);
    begin();
    for (uint32_t round = 1; round <= episode_.rules.rounds; ++round) {
      RoundRecord record;
      if (round > 1) changed_.clear();
      take_changes(round);
      ISTHMUS_TRY(place_clients(round, record));
      train_round(round, record);
      measure(record);
      history.push_back(std::move(record));
    }
    return history;
  }

 private:
  void take_changes(uint32_t round) {
    for (const Change& change : episode_.changes[round]) {
      data_[change.client] = &change.data;
      task_of_[change.client] = change.task;
      changed_.push_back(change.client);
    }
  }

  void begin() {
    const uint32_t models = method_ == Method::ifca ? k_told_ : 1;
    for (uint32_t k = 0; k < models; ++k) models_.push_back(make_model(rules_.seed, models > 1 ? kApart : kSmall, k));
    if (uses_reports()) {
      reporter_.emplace(episode_.rules, make_probe(), rules_.seed);
      cohort_.emplace(cohort_config());
    }
  }

  [[nodiscard]] bool uses_reports() const { return method_ != Method::fedavg && method_ != Method::ifca && method_ != Method::oracle; }

  [[nodiscard]] federated::CohortConfig cohort_config() const {
    federated::CohortConfig config{.rep = reporter_->header(), .clusters = {}, .trigger = {.tau = rules_.tau}};
    config.clusters = {.metric = federated::metric_of(config.rep.kind),
                       .rule = rules_.k_rule,
                       .k_fixed = rules_.k,
                       .k_max = rules_.k_max,
                       .seed = rules_.seed};
    config.migrates = method_ != Method::fixed_clusters;
    if (method_ == Method::recluster_always) config.recluster = federated::Recluster::at_every_report;
    if (method_ == Method::fixed_clusters || method_ == Method::migrate_only) config.recluster = federated::Recluster::never;
    return config;
  }

  /// A few rounds of averaging over everybody; their traffic is not counted, since it is paid once.
  Model make_probe() {
    Model probe = make_model(rules_.seed, kSmall);
    std::vector<uint32_t> everybody(clients_);
    for (uint32_t i = 0; i < clients_; ++i) everybody[i] = i;
    const uint32_t rounds = episode_.rules.scenario == Scenario::concept_swap ? rules_.probe_rounds : 0;
    for (uint32_t round = 0; round < rounds; ++round) probe = averaged(probe, chosen_of(everybody, 1000 + round, 0), 1000 + round);
    return probe;
  }

  // --- who is in which cluster -------------------------------------------------------------------------------------------

  Status place_clients(uint32_t round, RoundRecord& record) {
    if (method_ == Method::oracle) place_by_groups();
    if (!uses_reports()) return {};
    for (const uint32_t client : changed_) {
      record.bytes_down += cohort_->centres().values.size_bytes();  // fetched to compare with
      if (!reporter_->looks(client, *data_[client], cohort_->centres(), clusters_[client])) continue;
      ISTHMUS_TRY(
          cohort_->report(reporter_->header(),
                          {.client = client, .sequence = round, .samples = data_[client]->size(), .values = reporter_->values(client)}));
      record.bytes_up += reporter_->header().dims * sizeof(float);
    }
    ISTHMUS_ASSIGN(const federated::DriftReport report, cohort_->update());
    clusters_ = cohort_->assignment();
    if (report.cause == federated::Cause::first) models_.assign(report.k, models_.front());
    if (report.reclustered) mix(cohort_->mixing(), cohort_->k_old());
    record.rho = report.rho;
    record.reclustered = report.reclustered;
    record.reported = report.reported;
    record.migrated = report.migrated;
    return {};
  }

  void place_by_groups() {
    std::vector<uint32_t> groups;
    bool anew = models_.size() == 1;
    for (uint32_t i = 0; i < clients_; ++i) {
      groups.push_back(task_of_[i] % episode_.groups);
      anew = anew || (task_of_[i] < episode_.groups) != first_tasks_;
    }
    if (models_.size() == 1) {
      models_.assign(episode_.groups, models_.front());
    } else if (anew) {
      const std::vector<uint64_t> weights(clients_, 1);
      mix(federated::mixing_matrix(clusters_, episode_.groups, groups, episode_.groups, weights), episode_.groups);
      first_tasks_ = false;
    }
    clusters_ = std::move(groups);
  }

  void mix(std::span<const double> mixing, uint32_t k_old) {
    std::vector<float> flat;
    for (const Model& model : models_) flat.insert(flat.end(), model.begin(), model.end());
    const std::vector<float> mixed = federated::mix_models(mixing, k_old, flat);
    models_.clear();
    for (size_t first = 0; first < mixed.size(); first += kParameters) {
      models_.emplace_back(mixed.begin() + static_cast<std::ptrdiff_t>(first),
                           mixed.begin() + static_cast<std::ptrdiff_t>(first + kParameters));
    }
  }

  // --- training ----------------------------------------------------------------------------------------------------------

  std::vector<uint32_t> chosen_of(const std::vector<uint32_t>& members, uint32_t round, uint32_t cluster) const {
    const auto size = static_cast<uint32_t>(members.size());
    const auto many = std::max(std::min(size, 3U), static_cast<uint32_t>(std::lround(rules_.share * size)));
    CounterRng random = draws(rules_.seed, Stream::selection, uint64_t{round} * 4096 + cluster);
    std::vector<uint32_t> chosen = federated::choose(random, size, many);
    for (uint32_t& one : chosen) one = members[one];
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  /// The mean of the models that the chosen clients make of `from`; all have as many samples.
  Model averaged(const Model& from, const std::vector<uint32_t>& chosen, uint32_t round) const {
    std::vector<double> sums(kParameters);
    for (const uint32_t client : chosen) {
      Model own = from;
      CounterRng random = draws(rules_.seed, Stream::training, uint64_t{round} << 24 | client);
      train(own, *data_[client], rules_.train, random);
      for (size_t i = 0; i < kParameters; ++i) sums[i] += double{own[i]};
    }
    Model mean(kParameters);
    for (size_t i = 0; i < kParameters; ++i) mean[i] = static_cast<float>(sums[i] / static_cast<double>(chosen.size()));
    return mean;
  }

  void train_round(uint32_t round, RoundRecord& record) {
    if (method_ == Method::ifca) return train_ifca(round, record);
    for (uint32_t cluster = 0; cluster < models_.size(); ++cluster) {
      std::vector<uint32_t> members;
      for (uint32_t i = 0; i < clients_; ++i) {
        if (clusters_[i] == cluster) members.push_back(i);
      }
      if (members.empty()) continue;
      const std::vector<uint32_t> chosen = chosen_of(members, round, cluster);
      models_[cluster] = averaged(models_[cluster], chosen, round);
      count_bytes(chosen.size(), 1, record);
    }
  }

  void train_ifca(uint32_t round, RoundRecord& record) {
    std::vector<uint32_t> everybody(clients_);
    for (uint32_t i = 0; i < clients_; ++i) everybody[i] = i;
    const std::vector<uint32_t> chosen = chosen_of(everybody, round, 0);
    std::map<uint32_t, std::vector<uint32_t>> by_model;
    for (const uint32_t client : chosen) by_model[best_model(client)].push_back(client);
    std::vector<Model> next = models_;
    for (const auto& [model, clients] : by_model) next[model] = averaged(models_[model], clients, round);
    models_ = std::move(next);
    for (uint32_t i = 0; i < clients_; ++i) clusters_[i] = best_model(i);
    count_bytes(chosen.size(), k_told_, record);
  }

  [[nodiscard]] uint32_t best_model(uint32_t client) const {
    uint32_t best = 0;
    double least = loss_of(models_[0], *data_[client]);
    for (uint32_t k = 1; k < models_.size(); ++k) {
      const double loss = loss_of(models_[k], *data_[client]);
      if (loss >= least) continue;
      least = loss;
      best = k;
    }
    return best;
  }

  static void count_bytes(size_t clients, uint32_t models_down, RoundRecord& record) {
    constexpr uint64_t kModelBytes = kParameters * sizeof(float);
    record.bytes_down += clients * models_down * kModelBytes;
    record.bytes_up += clients * kModelBytes;
  }

  void measure(RoundRecord& record) const {
    std::map<std::pair<uint32_t, uint32_t>, double> known;  // of a task and a model
    for (uint32_t i = 0; i < clients_; ++i) {
      const auto [found, is_new] = known.try_emplace({task_of_[i], clusters_[i]}, 0.0);
      if (is_new) found->second = accuracy_of(models_[clusters_[i]], episode_.tests[task_of_[i]]);
      record.accuracy += found->second / clients_;
    }
    record.agreement = episode_.has_groups ? federated::adjusted_rand_index(clusters_, task_of_) : 0;
    record.k = static_cast<uint32_t>(models_.size());
    record.clusters = clusters_;
  }

  Method method_;
  const Episode& episode_;
  MethodRules rules_;
  uint32_t clients_;
  std::vector<const Samples*> data_;
  std::vector<uint32_t> task_of_, clusters_, changed_;
  uint32_t k_told_;
  bool first_tasks_ = true;
  std::vector<Model> models_;
  std::optional<Reporter> reporter_;
  std::optional<federated::CohortState> cohort_;
};

}  // namespace

std::string_view name_of(Method method) {
  constexpr std::array<std::string_view, 7> kNames = {"fedavg", "ifca", "static", "migrate_only", "recluster_always", "isthmus", "oracle"};
  return kNames[static_cast<size_t>(method)];
}

Result<History> run_method(Method method, const Episode& episode, const MethodRules& rules) {
  return Federation(method, episode, rules).run();
}

Summary summarise(const History& history, const EpisodeRules& rules, double target) {
  Summary summary;
  const auto rounds = static_cast<uint32_t>(history.size());
  const uint32_t drift = std::min(rules.big_drift, rounds);  // the round, counted from 1
  const auto first_in = [&](uint32_t first, uint32_t last) {
    for (uint32_t round = first; round < last; ++round) {
      if (history[round - 1].accuracy >= target) return round - first + 1;
    }
    return last - first;
  };
  summary.rounds_to_target = first_in(1, drift);
  summary.rounds_to_recover = first_in(drift, rounds + 1);
  for (const RoundRecord& record : history) {
    summary.mean_accuracy += record.accuracy / rounds;
    summary.mean_agreement += record.agreement / rounds;
    summary.global_reclusterings += record.reclustered ? 1 : 0;
    summary.bytes_down += static_cast<double>(record.bytes_down) / rounds;
    summary.bytes_up += static_cast<double>(record.bytes_up) / rounds;
  }
  summary.final_accuracy = history.back().accuracy;
  summary.final_k = history.back().k;
  return summary;
}

}  // namespace isthmus::cli
