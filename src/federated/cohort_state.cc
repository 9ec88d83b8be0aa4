// SPDX-License-Identifier: Apache-2.0
// cohort_state.h. Whatever runs over all clients runs in the order of their ids, so that neither the order of reports nor the table's own
// order shows in any bit of a result.
#include "federated/cohort_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "federated/detection.h"
#include "federated/nearest.h"

namespace isthmus::federated {
namespace {

CohortConfig consistent(CohortConfig config) {
  config.trigger.min_cohort = config.clusters.min_cohort;
  return config;
}

}  // namespace

CohortState::CohortState(const CohortConfig& config) : config_(consistent(config)) {}

std::span<float> CohortState::values_of(uint32_t slot) {
  return std::span(values_).subspan(size_t{slot} * config_.rep.dims, config_.rep.dims);
}

std::span<const float> CohortState::values_of(uint32_t slot) const {
  return std::span(values_).subspan(size_t{slot} * config_.rep.dims, config_.rep.dims);
}

Status CohortState::report(const RepHeader& header, const Report& report) {
  Status valid = check_same(config_.rep, header);
  if (valid.ok()) valid = check_values(header, report.values);
  if (valid.ok() && report.samples == 0) valid = invalid_argument("a report of 0 samples");
  if (!valid.ok()) {
    ++refused_;
    return valid.with_context(fmt::format("client {}", report.client));
  }
  const auto [found, is_new] = slots_.try_emplace(report.client, static_cast<uint32_t>(table_.size()));
  if (is_new) {
    table_.push_back({.id = report.client});
    values_.resize(values_.size() + config_.rep.dims);
  }
  Client& client = table_[found->second];
  if (!is_new && report.sequence <= client.sequence) {
    ++repeated_;
    return {};
  }
  client.sequence = report.sequence;
  client.samples = report.samples;
  reported_ += client.fresh ? 0 : 1;
  client.fresh = true;
  std::copy(report.values.begin(), report.values.end(), values_of(found->second).begin());
  return {};
}

void CohortState::remove(uint64_t client) {
  const auto found = slots_.find(client);
  if (found == slots_.end()) return;
  const uint32_t slot = found->second;
  const auto last = static_cast<uint32_t>(table_.size() - 1);
  if (table_[slot].fresh) --reported_;
  if (slot != last) {
    table_[slot] = table_[last];
    std::copy_n(values_of(last).begin(), config_.rep.dims, values_of(slot).begin());
    slots_[table_[slot].id] = slot;
  }
  table_.pop_back();
  values_.resize(values_.size() - config_.rep.dims);
  slots_.erase(client);
  changed_ = true;
}

void CohortState::observe_update(uint64_t client, double cosine) {
  const auto found = slots_.find(client);
  if (found == slots_.end()) return;
  Conduct& conduct = table_[found->second].conduct;
  const bool before = conduct.quarantined;
  conduct.observe(config_.quarantine, cosine);
  changed_ = changed_ || conduct.quarantined != before;
}

void CohortState::release(uint64_t client) {
  const auto found = slots_.find(client);
  if (found == slots_.end()) return;
  changed_ = changed_ || table_[found->second].conduct.quarantined;
  table_[found->second].conduct = {};
}

uint32_t CohortState::cluster_of(uint64_t client) const {
  const auto found = slots_.find(client);
  return found == slots_.end() ? kNoCluster : table_[found->second].cluster;
}

bool CohortState::quarantined(uint64_t client) const {
  const auto found = slots_.find(client);
  return found != slots_.end() && table_[found->second].conduct.quarantined;
}

uint64_t CohortState::sequence_of(uint64_t client) const {
  const auto found = slots_.find(client);
  return found == slots_.end() ? 0 : table_[found->second].sequence;
}

bool CohortState::is_news(uint64_t client, std::span<const float> values, uint64_t samples, double at_least) const {
  const auto found = slots_.find(client);
  if (found == slots_.end()) return true;
  const Client& known = table_[found->second];
  const std::span<const float> last = values_of(found->second);
  const Metric metric = config_.clusters.metric;
  const double noise = config_.rep.kind == RepKind::label ? histogram_threshold(values, samples, last, known.samples) : 0;
  if (known.cluster == kNoCluster || has_drifted(metric, values, last, noise, at_least)) return true;
  return migrate(metric, centres(), values, known.cluster, config_.hysteresis) != known.cluster;
}

std::vector<uint32_t> CohortState::slots_by_id() const {
  std::vector<uint32_t> slots(table_.size());
  std::iota(slots.begin(), slots.end(), 0U);
  const auto by_id = [&](uint32_t a, uint32_t b) { return table_[a].id < table_[b].id; };
  if (!std::is_sorted(slots.begin(), slots.end(), by_id)) std::sort(slots.begin(), slots.end(), by_id);
  return slots;
}

std::vector<uint64_t> CohortState::ids() const {
  std::vector<uint64_t> ids;
  for (const uint32_t slot : slots_by_id()) ids.push_back(table_[slot].id);
  return ids;
}

std::vector<uint32_t> CohortState::assignment() const {
  std::vector<uint32_t> clusters;
  for (const uint32_t slot : slots_by_id()) clusters.push_back(table_[slot].cluster);
  return clusters;
}

CohortState::Rows CohortState::rows_that_count() const {
  Rows rows{.slots = slots_by_id(), .copied = {}, .points = {}, .assignment = {}};
  rows.slots.erase(std::remove_if(rows.slots.begin(), rows.slots.end(), [&](uint32_t slot) { return table_[slot].conduct.quarantined; }),
                   rows.slots.end());
  bool in_place = rows.slots.size() == table_.size();
  for (uint32_t i = 0; in_place && i < rows.slots.size(); ++i) in_place = rows.slots[i] == i;
  if (!in_place) {
    rows.copied.reserve(rows.slots.size() * config_.rep.dims);
    for (const uint32_t slot : rows.slots) {
      const std::span<const float> values = values_of(slot);
      rows.copied.insert(rows.copied.end(), values.begin(), values.end());
    }
  }
  rows.points = {.values = in_place ? std::span<const float>(values_) : std::span<const float>(rows.copied), .dims = config_.rep.dims};
  for (const uint32_t slot : rows.slots) rows.assignment.push_back(table_[slot].cluster);
  return rows;
}

void CohortState::count_sizes(const Rows& rows) {
  sizes_.assign(centres_.size() / config_.rep.dims, 0);
  for (const uint32_t cluster : rows.assignment) ++sizes_[cluster];
}

void CohortState::update_centres(const Rows& rows) {
  const Metric metric = config_.clusters.metric;
  count_sizes(rows);
  if (config_.trim > 0) {
    centres_ = trimmed_means(rows.points, rows.assignment, centres(), config_.trim);
  } else if (config_.clip > 0) {
    centres_ = clipped_means(metric, rows.points, rows.assignment, centres(), config_.clip);
  } else {
    const std::vector<float> means = means_of(rows.points, rows.assignment, k(), config_.clusters.threads);
    for (size_t i = 0; i < means.size(); ++i) {
      if (sizes_[i / config_.rep.dims] > 0) centres_[i] = means[i];
    }
  }
}

void CohortState::move_reporters(DriftReport& report) {
  for (const uint32_t slot : slots_by_id()) {
    Client& client = table_[slot];
    if (!client.fresh) continue;
    client.fresh = client.in_reference = false;
    if (client.cluster == kNoCluster) {
      client.cluster = nearest(config_.clusters.metric, centres(), values_of(slot));
      ++report.joined;
      continue;
    }
    if (!config_.migrates) continue;
    const uint32_t to = migrate(config_.clusters.metric, centres(), values_of(slot), client.cluster, config_.hysteresis);
    if (to == client.cluster) continue;
    if (!client.moves.allow(config_.move_cap, round_)) {
      ++report.capped;
      continue;
    }
    client.cluster = to;
    ++report.migrated;
  }
}

/// Who does not count is where its representation says all the same.
void CohortState::place_uncounted() {
  for (uint32_t slot = 0; slot < table_.size(); ++slot) {
    table_[slot].fresh = false;
    table_[slot].in_reference = !table_[slot].conduct.quarantined;
    if (table_[slot].in_reference) continue;
    table_[slot].cluster = nearest(config_.clusters.metric, centres(), values_of(slot));
  }
}

Status CohortState::cluster_anew(Rows& rows, DriftReport& report) {
  const uint64_t wanted = config_.clusters.k_fixed, each = config_.clusters.min_cohort;
  if (report.cause == Cause::first && wanted > 1 && wanted <= rows.slots.size() && wanted * each > rows.slots.size()) {
    return invalid_argument(fmt::format("{} clients cannot make {} clusters of at least {} each", rows.slots.size(), wanted, each));
  }
  std::vector<double> noise;
  for (size_t row = 0; config_.rep.kind == RepKind::label && row < rows.slots.size(); ++row) {
    noise.push_back(histogram_noise(rows.points[row], table_[rows.slots[row]].samples));
  }
  ClusterRules rules = config_.clusters;
  rules.noise = noise;
  ISTHMUS_ASSIGN(Found found, cluster(rows.points, rules));
  adopt(rows, std::move(found), report);
  return {};
}

void CohortState::adopt(Rows& rows, Found found, DriftReport& report) {
  const uint32_t k_new = found.clustering.k(), dims = config_.rep.dims;
  k_old_ = k();
  const std::vector<uint32_t> names = stable_names(rows.assignment, k_old_, found.clustering.assignment, k_new);
  centres_.assign(size_t{k_new} * dims, 0);
  for (uint32_t c = 0; c < k_new; ++c) {
    std::copy_n(found.clustering.centre_points()[c].begin(), dims, centres_.begin() + static_cast<std::ptrdiff_t>(size_t{names[c]} * dims));
  }
  std::vector<uint64_t> samples;
  const std::vector<uint32_t> before = std::move(rows.assignment);
  rows.assignment.clear();
  for (size_t row = 0; row < rows.slots.size(); ++row) {
    Client& client = table_[rows.slots[row]];
    client.cluster = names[found.clustering.assignment[row]];
    rows.assignment.push_back(client.cluster);
    samples.push_back(client.samples);
    if (before[row] != client.cluster) ++(before[row] == kNoCluster ? report.joined : report.migrated);
  }
  mixing_.clear();
  if (k_old_ > 0) mixing_ = mixing_matrix(before, k_old_, rows.assignment, k_new, samples);
  place_uncounted();
  update_centres(rows);
  empty_rounds_.assign(k_new, 0);
  reference_ = centres_;
  theta_ = mean_centre_distance(config_.clusters.metric, centres(), rows.points);
  reference_clusters_ = heterogeneity_of(config_.clusters.metric, rows.points, rows.assignment, centres());
  silhouette_ = found.silhouette;
  clustered_at_ = round_;
  asked_ = false;
  report.reclustered = report.cause != Cause::first;
}

void CohortState::measure(const Rows& rows, DriftReport& report) const {
  report.clusters = heterogeneity_of(config_.clusters.metric, rows.points, rows.assignment, centres());
  report.spread = overall_mean(report.clusters);
  report.quarantined = table_.size() - rows.slots.size();
}

/// By cluster, for rho; empty for l1. The scatter is that of the reference: clusters whose groups have come apart scatter more, which
/// must not count as noise.
std::vector<double> CohortState::noise_of_moves(const Rows& rows) const {
  if (config_.clusters.metric != Metric::l2) return {};
  std::vector<uint64_t> kept(k());
  for (size_t row = 0; row < rows.slots.size(); ++row) kept[rows.assignment[row]] += table_[rows.slots[row]].in_reference ? 1 : 0;
  std::vector<double> noise;
  for (uint32_t c = 0; c < k(); ++c) {
    noise.push_back(noise_of_move(reference_clusters_[c].scatter, reference_clusters_[c].size, sizes_[c], kept[c]));
  }
  return noise;
}

Cause CohortState::cause_of(const DriftReport& report) const {
  if (asked_) return Cause::asked;
  if (config_.recluster == Recluster::never) return Cause::none;
  if (config_.recluster == Recluster::at_every_report) return report.reported > 0 ? Cause::asked : Cause::none;
  Signs signs{.rho = report.rho, .spread = report.spread, .reference_spread = overall_mean(reference_clusters_), .smallest = UINT64_MAX};
  for (const uint64_t size : sizes_) {
    if (size > 0 && k() > 1) signs.smallest = std::min(signs.smallest, size);  // one cluster is what there is
  }
  for (const uint32_t rounds : empty_rounds_) signs.longest_empty = std::max(signs.longest_empty, rounds);
  signs.rounds_since = static_cast<uint32_t>(round_ - clustered_at_);
  return decide(config_.trigger, signs);
}

Result<DriftReport> CohortState::update() {
  DriftReport report{.cause = Cause::none, .clients = table_.size(), .reported = reported_, .repeated = repeated_, .refused = refused_};
  report.tau = config_.trigger.tau;
  Rows rows = rows_that_count();
  ++round_;
  mixing_.clear();
  if (k() == 0) {
    report.cause = Cause::first;
    ISTHMUS_TRY(cluster_anew(rows, report));
  } else {
    if (reported_ > 0 || changed_) {
      move_reporters(report);
      for (size_t row = 0; row < rows.slots.size(); ++row) rows.assignment[row] = table_[rows.slots[row]].cluster;
      update_centres(rows);
    }
    for (uint32_t c = 0; c < k(); ++c) empty_rounds_[c] = sizes_[c] > 0 ? 0 : empty_rounds_[c] + 1;
    report.rho =
        rho_of(config_.clusters.metric, centres(), {.values = reference_, .dims = config_.rep.dims}, sizes_, theta_, noise_of_moves(rows));
    measure(rows, report);
    report.cause = cause_of(report);
    if (report.cause != Cause::none) ISTHMUS_TRY(cluster_anew(rows, report));
  }
  measure(rows, report);
  if (report.joined + report.migrated > 0 || report.reclustered) ++epoch_;
  reported_ = repeated_ = refused_ = 0;
  changed_ = false;
  report.epoch = epoch_;
  report.round = round_;
  report.k = k();
  report.theta = theta_;
  report.silhouette = silhouette_;
  return report;
}

}  // namespace isthmus::federated
