// SPDX-License-Identifier: Apache-2.0
// The C entry points of cohorts. Every process keeps the same table (federated/cohort_state.h): an update gathers what was reported
// anywhere by collectives on the parent, feeds it in by rank, and computes. A cohort has a lock of its own; the driver's is not held
// meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "api/library.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "federated/cohort_state.h"

namespace isthmus::api {

struct OpenCohort {
  std::mutex mutex;
  ncclComm_t parent = nullptr;
  int ranks = 0;
  federated::CohortConfig config;
  uint64_t rules_hash = 0;  ///< of what decides beside the representations' kind
  std::unique_ptr<federated::CohortState> state;
  struct Pending {
    uint64_t sequence, samples;
    std::vector<float> values;
  };
  std::map<uint64_t, Pending> pending;  ///< by client of this process
  std::set<uint64_t> unchanged;         ///< clients of this process with nothing to say since the last update
  double delta_report = 0;              ///< below 0: everything is news
  std::set<uint64_t> own;               ///< clients of this process: those that ever reported here
  std::vector<double> mixing;
};

namespace {

Status check(const isthmusCohortConfig_t* config) {
  if (config == nullptr || config->size != sizeof(isthmusCohortConfig_t) || config->magic != ISTHMUS_MAGIC || config->version == 0) {
    return invalid_argument(
        "the configuration is NULL, was not begun with ISTHMUS_COHORT_CONFIG_INITIALIZER, or comes from another header");
  }
  if (config->repKind < ISTHMUS_REP_LABEL || config->repKind > ISTHMUS_REP_GRADIENT) {
    return invalid_argument(fmt::format("repKind {} is none", config->repKind));
  }
  if (config->dim < 1 || config->dim > (1 << 20)) return invalid_argument(fmt::format("dim {}: 1 to 2^20 are accepted", config->dim));
  const bool counts = config->kMin >= 0 && config->kMax >= 0 && config->kFixed >= 0 && config->restarts >= 1 && config->minCohort >= 1 &&
                      config->cooldownRounds >= 0;
  if (!counts || std::max({config->kMin, config->kMax, config->kFixed}) > ISTHMUS_COHORT_MAX_K) {
    return invalid_argument(fmt::format("numbers of clusters are 0 to {}, restarts and minCohort at least 1", int{ISTHMUS_COHORT_MAX_K}));
  }
  if (config->kMax > 0 && config->kMin > config->kMax)
    return invalid_argument(fmt::format("kMin {} is above kMax {}", config->kMin, config->kMax));
  if (config->kRule < ISTHMUS_K_SPLIT || config->kRule > ISTHMUS_K_SILHOUETTE)
    return invalid_argument(fmt::format("kRule {} is none", config->kRule));
  if (!(config->tau > 0 && config->hysteresis >= 0 && config->hysteresis < 1)) {
    return invalid_argument(fmt::format("tau {} must be above 0, hysteresis {} from 0 to below 1", config->tau, config->hysteresis));
  }
  if (!std::isfinite(config->deltaReport)) return invalid_argument(fmt::format("deltaReport {} is no distance", config->deltaReport));
  return {};
}

uint64_t hash_of_rules(const isthmusCohortConfig_t& config) {
  Hasher hasher;
  for (const int number :
       {config.kMin, config.kMax, config.kFixed, config.kRule, config.restarts, config.minCohort, config.cooldownRounds}) {
    hasher.add(number);
  }
  for (const double number : {config.tau, config.hysteresis, config.silhouetteMin}) hasher.add(std::bit_cast<uint64_t>(number));
  return hasher.value();
}

federated::CohortConfig config_of(const isthmusCohortConfig_t& given) {
  federated::CohortConfig config;
  config.rep = {.kind = static_cast<federated::RepKind>(given.repKind),
                .dims = static_cast<uint32_t>(given.dim),
                .probe_hash = given.probeHash,
                .seed = given.seed};
  config.clusters.metric = federated::metric_of(config.rep.kind);
  config.clusters.k_fixed = static_cast<uint32_t>(given.kFixed);
  config.clusters.k_min = static_cast<uint32_t>(std::max(1, given.kMin));
  config.clusters.k_max = static_cast<uint32_t>(given.kMax);
  config.clusters.rule = given.kRule == ISTHMUS_K_SPLIT ? federated::KRule::split : federated::KRule::silhouette;
  config.clusters.silhouette_min = given.silhouetteMin;
  config.clusters.restarts = static_cast<uint32_t>(given.restarts);
  config.clusters.min_cohort = config.trigger.min_cohort = static_cast<uint32_t>(given.minCohort);
  config.clusters.seed = given.seed;
  config.trigger.tau = given.tau;
  config.trigger.cooldown_rounds = static_cast<uint32_t>(given.cooldownRounds);
  config.hysteresis = given.hysteresis;
  return config;
}

Result<std::shared_ptr<OpenCohort>> find(Library& library, isthmusCohort_t cohort) {
  const exec::Driver::Lock lock(library.driver());
  return library.find(cohort);
}

/// What processes compare before they exchange reports.
struct Header {
  uint32_t kind = 0, dims = 0;
  uint64_t probe_hash = 0, seed = 0, rules_hash = 0, clients = 0, unchanged = 0;
};

/// Every process's value, by rank.
template <typename T>
Result<std::vector<T>> gather(const OpenCohort& cohort, const T& mine) {
  std::vector<T> all(static_cast<size_t>(cohort.ranks));
  ISTHMUS_TRY(status_of(ncclAllGather(&mine, all.data(), sizeof mine, ncclUint8, cohort.parent, nullptr)));
  return all;
}

/// Every process's header; invalid_argument on all of them if two differ.
Result<std::vector<Header>> gather_headers(const OpenCohort& cohort) {
  const federated::RepHeader& rep = cohort.config.rep;
  const Header mine{.kind = static_cast<uint32_t>(rep.kind),
                    .dims = rep.dims,
                    .probe_hash = rep.probe_hash,
                    .seed = rep.seed,
                    .rules_hash = cohort.rules_hash,
                    .clients = cohort.pending.size(),
                    .unchanged = cohort.unchanged.size()};
  ISTHMUS_ASSIGN(std::vector<Header> all, gather(cohort, mine));
  const auto header_of = [](const Header& header) {
    return federated::RepHeader{
        .kind = static_cast<federated::RepKind>(header.kind), .dims = header.dims, .probe_hash = header.probe_hash, .seed = header.seed};
  };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Status same = federated::check_same(header_of(all[0]), header_of(all[rank]));
    if (!same.ok()) return same.with_context(fmt::format("rank {} against rank 0", rank));
    if (all[rank].rules_hash == all[0].rules_hash) continue;
    return invalid_argument(
        fmt::format("rank {}'s cohort has another configuration than rank 0's (numbers of clusters, their rule, restarts, "
                    "tau, hysteresis, silhouetteMin, minCohort or cooldownRounds)",
                    rank));
  }
  return all;
}

/// Reports of all processes go into the table, by rank; those of a process by client.
Status exchange(OpenCohort& cohort, const std::vector<Header>& headers) {
  uint64_t most = 0;
  for (const Header& header : headers) most = std::max(most, header.clients);
  if (most == 0) return {};
  const uint32_t dims = cohort.config.rep.dims;
  const size_t each = 24 + 4 * size_t{dims};
  std::vector<std::byte> mine(most * each), all(most * each * static_cast<size_t>(cohort.ranks));
  Writer writer(mine);
  for (const auto& [client, report] : cohort.pending) {
    writer.u64(client).u64(report.sequence).u64(report.samples).bytes(std::as_bytes(std::span(report.values)));
  }
  ISTHMUS_TRY(status_of(ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, cohort.parent, nullptr)));
  std::vector<float> values(dims);
  for (size_t rank = 0; rank < headers.size(); ++rank) {
    Reader reader(std::span<const std::byte>(all).subspan(rank * most * each, headers[rank].clients * each));
    for (uint64_t i = 0; i < headers[rank].clients; ++i) {
      federated::Report report{.client = reader.u64()};
      report.sequence = reader.u64();
      report.samples = reader.u64();
      const auto bytes = reader.bytes(4 * size_t{dims});
      std::memcpy(values.data(), bytes.data(), bytes.size());
      report.values = values;
      ISTHMUS_TRY(cohort.state->report(cohort.config.rep, report).with_context(fmt::format("client {} of rank {}", report.client, rank)));
    }
  }
  return {};
}

/// The same reports make the same clusters; but logarithms and cosines are those of each host's C library.
Status compare_outcomes(const OpenCohort& cohort) {
  const federated::CohortState& state = *cohort.state;
  const uint64_t mine = Hasher().add(state.epoch()).add(std::as_bytes(state.centres().values)).value();
  ISTHMUS_ASSIGN(const std::vector<uint64_t> all, gather(cohort, mine));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return internal_error(
        fmt::format("ranks 0 and {} have made other clusters of the same reports: do their hosts have the same C library?", rank));
  }
  return {};
}

void fill(isthmusDriftReport_t& to, const federated::DriftReport& from) {
  to.epoch = from.epoch;
  to.k = static_cast<int>(from.k);
  to.reclustered = from.reclustered ? 1 : 0;
  to.clients = from.clients;
  to.reported = from.reported;
  to.repeated = from.repeated;
  to.joined = from.joined;
  to.migrated = from.migrated;
  to.quarantined = from.quarantined;
  to.rho = from.rho;
  to.tau = from.tau;
  to.theta = from.theta;
  to.silhouette = from.silhouette;
  to.spread = from.spread;
  for (size_t k = 0; k < ISTHMUS_COHORT_MAX_K; ++k) {
    const federated::Heterogeneity none{}, &cluster = k < from.clusters.size() ? from.clusters[k] : none;
    to.sizes[k] = cluster.size;
    to.hetMean[k] = cluster.mean;
    to.hetP95[k] = cluster.p95;
    to.hetMax[k] = cluster.max;
  }
}

/// In a group, collectives only begin at its end.
Status check_no_group() {
  if (Library::group_depth() == 0) return {};
  return invalid_usage("cohorts' calls block: they cannot be part of ncclGroupStart and ncclGroupEnd");
}

Status init(Library& library, isthmusCohort_t* out, ncclComm_t parent, const isthmusCohortConfig_t* config) {
  if (out == nullptr) return invalid_argument("the result pointer is NULL");
  ISTHMUS_TRY(check(config));
  auto cohort = std::make_shared<OpenCohort>();
  cohort->parent = parent;
  cohort->config = config_of(*config);
  cohort->rules_hash = hash_of_rules(*config);
  cohort->delta_report = config->deltaReport;
  cohort->state = std::make_unique<federated::CohortState>(cohort->config);
  const exec::Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(comm::Communicator* const communicator, library.find(parent));
  cohort->ranks = communicator->ranks();
  *out = library.adopt(std::move(cohort));
  return {};
}

Status take_report(Library& library, isthmusCohort_t handle, uint64_t client, const float* rep, int dim, uint64_t samples) {
  ISTHMUS_ASSIGN(const auto cohort, find(library, handle));
  const std::lock_guard guard(cohort->mutex);
  const federated::RepHeader& header = cohort->config.rep;
  if (dim != static_cast<int>(header.dims)) {
    return invalid_argument(fmt::format("a representation of {} numbers, where the cohort's have {}", dim, header.dims));
  }
  if (rep == nullptr) return invalid_argument("the representation is NULL");
  if (samples == 0) return invalid_argument("a representation of no samples; at least 1");
  const std::span<const float> values(rep, static_cast<size_t>(dim));
  ISTHMUS_TRY(federated::check_values(header, values).with_context(fmt::format("client {}", client)));
  cohort->own.insert(client);
  if (cohort->delta_report >= 0 && !cohort->state->is_news(client, values, samples, cohort->delta_report)) {
    cohort->pending.erase(client);  // what it said before, since the last update, holds no longer
    cohort->unchanged.insert(client);
    return {};
  }
  cohort->unchanged.erase(client);
  // a client may come to this process from another, whose reports count as its own
  cohort->pending[client] = {
      .sequence = cohort->state->sequence_of(client) + 1, .samples = samples, .values = {values.begin(), values.end()}};
  return {};
}

Status update(Library& library, isthmusCohort_t handle, isthmusDriftReport_t* report) {
  ISTHMUS_TRY(check_no_group());
  ISTHMUS_ASSIGN(const auto cohort, find(library, handle));
  const std::lock_guard guard(cohort->mutex);
  ISTHMUS_ASSIGN(const std::vector<Header> headers, gather_headers(*cohort));
  ISTHMUS_TRY(exchange(*cohort, headers));
  cohort->pending.clear();
  cohort->unchanged.clear();
  ISTHMUS_ASSIGN(const federated::DriftReport made, cohort->state->update());
  ISTHMUS_TRY(compare_outcomes(*cohort));
  const auto mixing = cohort->state->mixing();
  cohort->mixing.assign(mixing.begin(), mixing.end());
  if (report == nullptr) return {};
  if (report->size != sizeof(isthmusDriftReport_t) || report->magic != ISTHMUS_MAGIC || report->version == 0) {
    return invalid_argument(
        "the update is made, but not told: the report was not begun with ISTHMUS_DRIFT_REPORT_INITIALIZER, or comes from another header");
  }
  fill(*report, made);
  report->unchanged = 0;
  for (const Header& header : headers) report->unchanged += header.unchanged;
  return {};
}

Status make_comm(Library& library, isthmusCohort_t handle, int cluster, ncclComm_t* comm) {
  if (comm == nullptr) return invalid_argument("the result pointer is NULL");
  *comm = nullptr;
  ISTHMUS_TRY(check_no_group());
  ISTHMUS_ASSIGN(const auto cohort, find(library, handle));
  const std::lock_guard guard(cohort->mutex);
  const bool known = cluster < static_cast<int>(cohort->state->k()) && cluster >= -1;
  const bool here = known && cluster >= 0 && std::any_of(cohort->own.begin(), cohort->own.end(), [&](uint64_t client) {
                      return cohort->state->cluster_of(client) == static_cast<uint32_t>(cluster);
                    });
  // collective: the others must not wait for one whose number is wrong
  const Status split = status_of(ncclCommSplit(cohort->parent, here ? cluster : NCCL_SPLIT_NOCOLOR, 0, comm, nullptr));
  return known ? split : invalid_argument(fmt::format("cluster {} of {}", cluster, cohort->state->k()));
}

}  // namespace
}  // namespace isthmus::api

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;

extern "C" {

ncclResult_t isthmusCohortInit(isthmusCohort_t* cohort, ncclComm_t parent, const isthmusCohortConfig_t* config) {
  return entry([&](Library& library) { return isthmus::api::init(library, cohort, parent, config).with_context("isthmusCohortInit"); });
}

ncclResult_t isthmusCohortReport(isthmusCohort_t cohort, unsigned long long client, const float* rep, int dim, unsigned long long samples) {
  return entry([&](Library& library) {
    return isthmus::api::take_report(library, cohort, client, rep, dim, samples).with_context("isthmusCohortReport");
  });
}

ncclResult_t isthmusCohortUpdate(isthmusCohort_t cohort, isthmusDriftReport_t* report) {
  return entry([&](Library& library) { return isthmus::api::update(library, cohort, report).with_context("isthmusCohortUpdate"); });
}

ncclResult_t isthmusCohortClusterOf(isthmusCohort_t cohort, unsigned long long client, int* cluster) {
  return entry([&](Library& library) -> Status {
    if (cluster == nullptr) return isthmus::invalid_argument("isthmusCohortClusterOf: the result pointer is NULL");
    const auto found = isthmus::api::find(library, cohort);
    if (!found.ok()) return found.status().with_context("isthmusCohortClusterOf");
    const std::lock_guard guard((*found)->mutex);
    const uint32_t at = (*found)->state->cluster_of(client);
    *cluster = at == isthmus::federated::kNoCluster ? -1 : static_cast<int>(at);
    return {};
  });
}

ncclResult_t isthmusCohortComm(isthmusCohort_t cohort, int cluster, ncclComm_t* comm) {
  return entry([&](Library& library) { return isthmus::api::make_comm(library, cohort, cluster, comm).with_context("isthmusCohortComm"); });
}

ncclResult_t isthmusCohortMix(isthmusCohort_t cohort, const double** mix, int* kOld, int* kNew) {
  return entry([&](Library& library) -> Status {
    if (mix == nullptr || kOld == nullptr || kNew == nullptr)
      return isthmus::invalid_argument("isthmusCohortMix: a result pointer is NULL");
    const auto found = isthmus::api::find(library, cohort);
    if (!found.ok()) return found.status().with_context("isthmusCohortMix");
    const std::lock_guard guard((*found)->mutex);
    *mix = (*found)->mixing.empty() ? nullptr : (*found)->mixing.data();
    *kOld = (*found)->mixing.empty() ? 0 : static_cast<int>((*found)->state->k_old());
    *kNew = static_cast<int>((*found)->state->k());
    return {};
  });
}

ncclResult_t isthmusCohortDestroy(isthmusCohort_t cohort) {
  return entry([&](Library& library) -> Status {
    const isthmus::exec::Driver::Lock lock(library.driver());
    ISTHMUS_TRY(library.find(cohort).status().with_context("isthmusCohortDestroy"));
    library.forget(cohort);
    return {};
  });
}

}  // extern "C"
