// SPDX-License-Identifier: Apache-2.0
// work.h.
#include "cli/federated/run/work.h"

#include <fmt/format.h>

#include <utility>

#include "federated/draws.h"
#include "federated/partition.h"

namespace isthmus::cli {

MemberWork::MemberWork(const RunTerms& terms, uint32_t member, const Digits& digits)
    : terms_(terms),
      first_(member * terms.clients_each),
      episode_(make_episode(terms.episode, digits, terms.seed)),
      data_(terms.clients_each),
      task_of_(terms.clients_each),
      clusters_(terms.clients_each, 0) {}

void MemberWork::advance_to(uint32_t round) {
  for (; next_change_ <= std::min(round, terms_.episode.rounds); ++next_change_) {
    for (const Change& change : episode_.changes[next_change_]) {
      if (change.client / terms_.clients_each != first_ / terms_.clients_each) continue;
      const uint32_t own = change.client - first_;
      data_[own] = &change.data;
      task_of_[own] = change.task;
      changed_.insert(own);
    }
  }
}

Result<RunReports> MemberWork::look(const RunCall& call) {
  if (call.clusters.size() != terms_.clients_each) return remote_error("it calls for other clients than this member's");
  advance_to(call.round);
  looked_in_ = call.round;
  RunReports reports{.round = call.round, .header = {}, .reports = {}, .held = {}};
  for (const auto& [cluster, model] : models_) reports.held.push_back({.cluster = cluster, .model = hash_of(model)});
  if (!call.looks) return reports;
  const bool needs_probe = terms_.episode.scenario == Scenario::concept_swap;
  if (!reporter_) {
    if (needs_probe && call.probe.size() != parameters_of(terms_.model)) return remote_error("it calls for gradients, but sends no probe");
    reporter_.emplace(terms_.episode, call.probe, terms_.seed);
  }
  reports.header = reporter_->header();
  const federated::Points centres{.values = call.centres, .dims = reports.header.dims};
  if (call.centres.size() % reports.header.dims != 0) return remote_error("its centres have other dimensions than representations");
  for (const uint32_t own : std::exchange(changed_, {})) {
    const bool known = call.clusters[own] < centres.size();
    if (reporter_->looks(first_ + own, *data_[own], known ? centres : federated::Points{}, call.clusters[own])) unconfirmed_.insert(own);
  }
  for (const uint32_t own : unconfirmed_) {
    const auto values = reporter_->values(first_ + own);
    reports.reports.push_back({.client = first_ + own, .samples = data_[own]->size(), .values = {values.begin(), values.end()}});
  }
  return reports;
}

Status MemberWork::follow(const RunPlan& plan) {
  if (plan.round != looked_in_ || plan.clusters.size() != terms_.clients_each) return remote_error("its plan is for another round");
  unconfirmed_.clear();
  if (plan.epoch != epoch_) alone_.clear();
  epoch_ = plan.epoch;
  clusters_ = plan.clusters;
  for (const RunPlan::Part& part : plan.parts) {
    if (!part.values.empty()) {
      models_[part.cluster] = part.values;
      alone_.erase(part.cluster);
    }
    const auto held = models_.find(part.cluster);
    const bool fits = held != models_.end() && held->second.size() == parameters_of(terms_.model) && hash_of(held->second) == part.model;
    if (!fits) return remote_error(fmt::format("the model of cluster {} is not the one that its plan names", part.cluster));
  }
  return {};
}

std::vector<MemberWork::Update> MemberWork::train(const RunPlan& plan, const std::function<bool()>& goes_on) const {
  std::vector<Update> updates;
  for (const RunPlan::Part& part : plan.parts) {
    Update update{.cluster = part.cluster, .sum = part.sum, .vector = {}};
    const Model& from = part.sum == SumKind::none ? *model_of(part.cluster) : models_.at(part.cluster);
    std::vector<double> sums(from.size());
    for (uint32_t own = 0; own < terms_.clients_each; ++own) {
      if (clusters_[own] != part.cluster || data_[own] == nullptr) continue;
      Model trained = from;
      CounterRng random = federated::draws(terms_.seed, federated::Stream::training, uint64_t{plan.round} << 24 | (first_ + own));
      cli::train(trained, *data_[own], terms_.train, random, goes_on);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += double{trained[i]} - double{from[i]};
      ++update.clients;
      update.weight += static_cast<double>(data_[own]->size());
    }
    const double share = update.clients == 0 ? 0 : 1.0 / update.clients;
    for (const double sum : sums) update.vector.push_back(static_cast<float>(sum * share));
    updates.push_back(std::move(update));
  }
  return updates;
}

void MemberWork::add(const Update& update, std::span<const float> mean) {
  add_update(models_.at(update.cluster), mean);
  alone_.erase(update.cluster);
}

void MemberWork::stay_alone(const Update& update) {
  Model own = update.sum == SumKind::none ? *model_of(update.cluster) : models_.at(update.cluster);
  add_update(own, update.vector);
  alone_[update.cluster] = std::move(own);
}

const Model* MemberWork::model_of(uint32_t cluster) const {
  if (const auto own = alone_.find(cluster); own != alone_.end()) return &own->second;
  const auto common = models_.find(cluster);
  return common == models_.end() ? nullptr : &common->second;
}

double MemberWork::accuracy() const {
  std::map<std::pair<uint32_t, uint32_t>, double> known;  // of a task and a cluster
  double sum = 0;
  for (uint32_t own = 0; own < terms_.clients_each; ++own) {
    const auto [found, is_new] = known.try_emplace({task_of_[own], clusters_[own]}, 0.0);
    const Model* const model = model_of(clusters_[own]);
    if (is_new && model != nullptr) found->second = accuracy_of(*model, episode_.tests[task_of_[own]]);
    sum += found->second;
  }
  return sum / terms_.clients_each;
}

}  // namespace isthmus::cli
