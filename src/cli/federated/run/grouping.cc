// SPDX-License-Identifier: Apache-2.0
// grouping.h.
#include "cli/federated/run/grouping.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/federated/reporter.h"

namespace isthmus::cli {

Grouping::Grouping(const RunRules& rules) : rules_(rules), models_{first_model(rules.model, rules.seed)} {}

void Grouping::open(uint32_t round) {
  if (looks(round) && !state_) begin();
}

/// The warm-up is over: reports are compared by what it has made.
void Grouping::begin() {
  if (rules_.episode.scenario == Scenario::concept_swap) probe_ = models_.front();
  federated::CohortConfig config{
      .rep = Reporter(rules_.episode, probe_, rules_.seed).header(), .clusters = {}, .trigger = {.tau = rules_.tau}};
  config.clusters = {.metric = federated::metric_of(config.rep.kind),
                     .rule = rules_.k_rule,
                     .k_fixed = rules_.k,
                     .k_max = rules_.k_max,
                     .seed = rules_.seed};
  state_.emplace(config);
}

Status Grouping::take(uint32_t member, const RunReports& reports) {
  if (!state_) return reports.reports.empty() ? Status() : remote_error("it reports before it was asked to");
  for (const RunReports::One& one : reports.reports) {
    if (one.client / rules_.clients_each != member)
      return remote_error(fmt::format("it reports for client {}, which is not its own", one.client));
    ISTHMUS_TRY(
        state_->report(reports.header, {.client = one.client, .sequence = reports.round, .samples = one.samples, .values = one.values})
            .with_context(fmt::format("client {}", one.client)));
  }
  return {};
}

Result<federated::DriftReport> Grouping::update(uint32_t round) {
  federated::DriftReport report{.round = round, .k = k(), .tau = rules_.tau};
  const size_t needed = std::max(1U, rules_.k);
  if (!looks(round) || (!grouped_ && state_->clients() < needed)) {
    report.clusters.resize(1);
    report.clusters[0].size = rules_.episode.clients;
    return report;
  }
  ISTHMUS_ASSIGN(report, state_->update());
  if (!grouped_) models_.assign(report.k, models_.front());
  grouped_ = true;
  if (report.reclustered) mix();
  report.round = round;
  return report;
}

void Grouping::mix() {
  std::vector<float> flat;
  for (const Model& model : models_) flat.insert(flat.end(), model.begin(), model.end());
  const std::vector<float> mixed = federated::mix_models(state_->mixing(), state_->k_old(), flat);
  const size_t each = parameters_of(rules_.model);
  models_.clear();
  for (size_t first = 0; first < mixed.size(); first += each) {
    const auto at = mixed.begin() + static_cast<std::ptrdiff_t>(first);
    models_.emplace_back(at, at + static_cast<std::ptrdiff_t>(each));
  }
}

std::vector<uint32_t> Grouping::clusters_of(uint32_t member) const {
  std::vector<uint32_t> clusters(rules_.clients_each, 0);
  if (!grouped_) return clusters;
  for (uint32_t i = 0; i < rules_.clients_each; ++i) clusters[i] = state_->cluster_of(uint64_t{member} * rules_.clients_each + i);
  return clusters;
}

federated::RankSet Grouping::members_of(uint32_t cluster) const {
  federated::RankSet members;
  for (uint32_t member = 0; member < rules_.members; ++member) {
    const std::vector<uint32_t> clusters = clusters_of(member);
    if (std::find(clusters.begin(), clusters.end(), cluster) != clusters.end()) members.set(member);
  }
  return members;
}

}  // namespace isthmus::cli
