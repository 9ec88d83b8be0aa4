// SPDX-License-Identifier: Apache-2.0
// chronicle.h.
#include "cli/federated/run/chronicle.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/json_text.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kKiB = 1024;

std::string_view name_of(SumKind sum) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "plain", "masked"};
  return kNames[static_cast<size_t>(sum)];
}

std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

void line(const Json& json) {
  fmt::print("{}\n", json_text(json));
  std::fflush(stdout);
}

Json json_of(const ClusterRecord& cluster) {
  Json json = {{"cluster", cluster.cluster},
               {"sum", name_of(cluster.sum)},
               {"members", federated::ranks_of(cluster.members)},
               {"survivors", federated::ranks_of(cluster.survivors)},
               {"late", federated::ranks_of(cluster.late)},
               {"weight_sum", cluster.weight_sum},
               {"model", hex(cluster.model)},
               {"seconds", cluster.seconds}};
  if (!cluster.failure.empty()) json["failure"] = cluster.failure;
  return json;
}

/// "3/4 3/4 2*": survivors of members of each cluster; * where there is no sum.
std::string sums_text(const std::vector<ClusterRecord>& clusters) {
  std::string text;
  for (const ClusterRecord& one : clusters) {
    const bool made = one.failure.empty();
    text += fmt::format("{}{}", text.empty() ? "" : " ", made ? fmt::format("{}/{}", one.survivors.count(), one.members.count()) : "-");
  }
  return text;
}

}  // namespace

void Chronicle::news(std::string_view text) { fmt::print(stderr, "# {}\n", text); }

void Chronicle::begin(const RunRules& rules, const std::vector<std::string>& addresses) const {
  const EpisodeRules& episode = rules.episode;
  const std::string sums = rules.masked ? fmt::format("masked among at least {}, clip {}", rules.min_cohort, rules.clip) : "plain";
  if (json_) {
    return line({{"listening", addresses},
                 {"members", rules.members},
                 {"clients", episode.clients},
                 {"scenario", name_of(episode.scenario)},
                 {"model", name_of(rules.model)},
                 {"parameters", parameters_of(rules.model)},
                 {"rounds", episode.rounds},
                 {"codec", rules.codec},
                 {"masked", rules.masked},
                 {"deadline_s", static_cast<double>(rules.deadline_ns) / kSecondNs},
                 {"quorum", rules.quorum}});
  }
  const std::vector<std::string_view> views(addresses.begin(), addresses.end());
  fmt::print("# listening at {} for {} members of {} clients each\n", join(views, ", "), rules.members, rules.clients_each);
  fmt::print("# {}: {} of {} parameters, {} rounds; codec {}, sums {}; deadline {}\n", name_of(episode.scenario), name_of(rules.model),
             parameters_of(rules.model), episode.rounds, rules.codec, sums, duration_text(rules.deadline_ns));
  fmt::print("#{:>6} {:>6} {:>2} {:>8} {:>6} {:>6} {:<13} {:<24} {:>8} {:>8} {:>8} {:>8}\n", "round", "epoch", "k", "reported", "moves",
             "rho", "clustered", "survivors/members", "accuracy", "KiB up", "KiB down", "seconds");
  std::fflush(stdout);
}

void Chronicle::round(const RunRecord& record) {
  const federated::DriftReport& drift = record.drift;
  if (!json_) {
    fmt::print("{:>7} {:>6} {:>2} {:>8} {:>6} {:>6.3f} {:<13} {:<24} {:>8} {:>8.1f} {:>8.1f} {:>8.3f}\n", drift.round, drift.epoch, drift.k,
               drift.reported, drift.migrated + drift.joined, drift.rho,
               drift.cause == federated::Cause::none ? "-" : federated::name_of(drift.cause), sums_text(record.clusters),
               record.answers == 0 ? "-" : fmt::format("{:.4f}", record.accuracy), static_cast<double>(record.sent_bytes) / kKiB,
               static_cast<double>(record.received_bytes) / kKiB, record.seconds);
    for (const ClusterRecord& one : record.clusters) {
      std::string& said = said_[one.cluster];
      if (!one.failure.empty() && one.failure != said) fmt::print("# cluster {}: {}\n", one.cluster, one.failure);
      said = one.failure;
    }
    std::fflush(stdout);
    return;
  }
  Json sizes = Json::array(), het = Json::array(), clusters = Json::array();
  for (const federated::Heterogeneity& one : drift.clusters) {
    sizes.push_back(one.size);
    het.push_back({{"mean", one.mean}, {"p95", one.p95}, {"max", one.max}});
  }
  for (const ClusterRecord& one : record.clusters) clusters.push_back(json_of(one));
  line({{"round", drift.round},
        {"epoch", drift.epoch},
        {"k", drift.k},
        {"reclustered", drift.reclustered},
        {"cause", federated::name_of(drift.cause)},
        {"rho", drift.rho},
        {"tau", drift.tau},
        {"theta", drift.theta},
        {"silhouette", drift.silhouette},
        {"clients", drift.clients},
        {"reported", drift.reported},
        {"joined", drift.joined},
        {"migrated", drift.migrated},
        {"quarantined", drift.quarantined},
        {"sizes", sizes},
        {"het", het},
        {"members", federated::ranks_of(record.members)},
        {"clusters", clusters},
        {"answers", record.answers},
        {"accuracy", record.answers == 0 ? Json(nullptr) : Json(record.accuracy)},
        {"sent_bytes", record.sent_bytes},
        {"received_bytes", record.received_bytes},
        {"stale", record.stale},
        {"seconds", record.seconds}});
}

void Chronicle::end(uint64_t rounds, double seconds, const std::string& why) const {
  if (json_) return line({{"end", {{"rounds", rounds}, {"seconds", seconds}, {"why", why}}}});
  fmt::print("# {} rounds in {:.2f} s{}{}\n", rounds, seconds, why.empty() ? "" : ": ", why);
  std::fflush(stdout);
}

void Chronicle::member_begin(uint32_t member, const RunTerms& terms, const std::string& images) const {
  const uint32_t first = member * terms.clients_each;
  news(fmt::format("member {} of {} has joined: clients {} to {}, of {}", member, terms.members, first, first + terms.clients_each - 1,
                   images));
  if (json_) return;
  fmt::print("#{:>6} {:>6} {:>8} {:<48} {:>8} {:>8} {:>8} {:>8}\n", "round", "epoch", "reported", "cluster:clients:model", "accuracy",
             "KiB up", "KiB down", "seconds");
  std::fflush(stdout);
}

void Chronicle::member_round(uint32_t member, const MemberRecord& record) const {
  if (!json_) {
    std::string parts;
    for (const MemberRecord::Part& part : record.parts) {
      parts += fmt::format("{}{}:{}:{}", parts.empty() ? "" : " ", part.cluster, part.clients,
                           part.model == 0 ? "alone" : hex(part.model).substr(0, 6));
    }
    fmt::print("{:>7} {:>6} {:>8} {:<48} {:>8.4f} {:>8.1f} {:>8.1f} {:>8.3f}\n", record.round, record.epoch, record.reported, parts,
               record.accuracy, static_cast<double>(record.sent_bytes) / kKiB, static_cast<double>(record.received_bytes) / kKiB,
               record.seconds);
    std::fflush(stdout);
    return;
  }
  Json parts = Json::array();
  for (const MemberRecord::Part& part : record.parts) {
    Json one = {{"cluster", part.cluster}, {"clients", part.clients}, {"sum", name_of(part.sum)}, {"counted", part.counted}};
    one["model"] = part.model == 0 ? Json(nullptr) : Json(hex(part.model));
    if (!part.failure.empty()) one["failure"] = part.failure;
    parts.push_back(std::move(one));
  }
  line({{"member", member},
        {"round", record.round},
        {"epoch", record.epoch},
        {"reported", record.reported},
        {"clusters", parts},
        {"accuracy", record.accuracy},
        {"sent_bytes", record.sent_bytes},
        {"received_bytes", record.received_bytes},
        {"seconds", record.seconds}});
}

}  // namespace isthmus::cli
