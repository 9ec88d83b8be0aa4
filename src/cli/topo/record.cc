// SPDX-License-Identifier: Apache-2.0
// record.h.
#include "cli/topo/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/json_text.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::ordered_json;
using topology::Claim;
using topology::Level;
using topology::Node;
using topology::Part;
using topology::Place;
using topology::Rung;

constexpr std::array kRungs = {Rung::setting, Rung::file, Rung::slurm, Rung::kubernetes, Rung::address};

Json json_of(const Claim& claim) {
  return {{"level", name_of(claim.level)}, {"name", claim.name}, {"rung", name_of(claim.rung)}, {"source", claim.source}};
}

Json json_of(const Part& part) {  // NOLINT(misc-no-recursion)
  Json json = {{"kind", part.kind}, {"name", part.name}};
  if (part.bytes != 0) json["bytes"] = part.bytes;
  if (part.cores != 0) json["cores"] = part.cores;
  if (!part.cpus.empty()) json["cpus"] = part.cpus;
  if (!part.model.empty()) json["model"] = part.model;
  if (part.link_gb_per_s > 0) json["link_gb_per_s"] = part.link_gb_per_s;
  if (!part.children.empty()) json["children"] = Json::array();
  for (const Part& child : part.children) json["children"].push_back(json_of(child));
  return json;
}

Json json_of(const Node& node) {  // NOLINT(misc-no-recursion)
  Json json = {{"level", node.level ? Json(name_of(*node.level)) : Json("job")}, {"name", node.name}, {"ranks", node.ranks}};
  if (!node.sources.empty()) json["sources"] = node.sources;
  if (!node.children.empty()) json["children"] = Json::array();
  for (const Node& child : node.children) json["children"].push_back(json_of(child));
  return json;
}

Rung rung_named(const std::string& name) {
  const auto* found = std::find_if(kRungs.begin(), kRungs.end(), [&](Rung rung) { return name_of(rung) == name; });
  return found == kRungs.end() ? Rung::address : *found;
}

Claim claim_of(const Json& json) {
  return {.level = topology::level_named(json.at("level").get<std::string>()).value_or(Level::host),
          .name = json.at("name").get<std::string>(),
          .rung = rung_named(json.at("rung").get<std::string>()),
          .source = json.at("source").get<std::string>()};
}

Part part_of(const Json& json) {  // NOLINT(misc-no-recursion)
  Part part{.kind = json.at("kind").get<std::string>(),
            .name = json.at("name").get<std::string>(),
            .bytes = json.value("bytes", uint64_t{0}),
            .cores = json.value("cores", 0),
            .cpus = json.value("cpus", ""),
            .model = json.value("model", ""),
            .link_gb_per_s = json.value("link_gb_per_s", 0.0)};
  if (const auto children = json.find("children"); children != json.end()) {
    for (const Json& child : *children) part.children.push_back(part_of(child));
  }
  return part;
}

topology::Insides insides_of(const std::vector<TopoRecord>& records) {
  topology::Insides insides;
  for (const TopoRecord& record : records) {
    if (record.inside) insides.try_emplace(record.place.host_id, *record.inside);
  }
  return insides;
}

}  // namespace

std::string encode(const TopoRecord& record) {
  Json json = {
      {"host_id", record.place.host_id}, {"host", record.place.hostname}, {"claims", Json::array()}, {"warnings", record.warnings}};
  for (const Claim& claim : record.place.claims) json["claims"].push_back(json_of(claim));
  if (record.inside) json["inside"] = json_of(*record.inside);
  if (!record.ucx_address.empty()) json["ucx_address"] = std::vector<uint8_t>(record.ucx_address.begin(), record.ucx_address.end());
  return json_text(json);
}

Result<TopoRecord> decode_record(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    TopoRecord record{
        .place = {.host_id = json.at("host_id").get<uint64_t>(), .hostname = json.at("host").get<std::string>(), .claims = {}},
        .warnings = json.at("warnings").get<std::vector<std::string>>()};
    for (const Json& claim : json.at("claims")) record.place.claims.push_back(claim_of(claim));
    if (const auto inside = json.find("inside"); inside != json.end()) record.inside = part_of(*inside);
    const auto address = json.value("ucx_address", std::vector<uint8_t>());
    record.ucx_address.assign(address.begin(), address.end());
    return record;
  } catch (const Json::exception& error) {
    return remote_error(fmt::format("what a rank says is malformed: {}; do all ranks run the same isthmus?", error.what()));
  }
}

std::vector<Place> TopoReport::places() const {
  std::vector<Place> all;
  for (const TopoRecord& record : records) all.push_back(record.place);
  return all;
}

std::vector<std::string> TopoReport::warnings() const {
  std::vector<std::pair<std::string, std::vector<int32_t>>> found;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    for (const std::string& warning : records[rank].warnings) {
      auto known = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.first == warning; });
      if (known == found.end()) known = found.insert(found.end(), {warning, {}});
      known->second.push_back(static_cast<int32_t>(rank));
    }
  }
  std::vector<std::string> lines;
  lines.reserve(found.size());
  for (const auto& [warning, ranks] : found) {
    lines.push_back(is_job ? fmt::format("{} {}: {}", ranks.size() == 1 ? "rank" : "ranks", number_ranges(ranks), warning) : warning);
  }
  const auto more = topology::contradictions(places());
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

topology::Box TopoReport::box(bool inside) const {
  const Node job = topology::make_tree(places());
  return box_of(is_job ? job : job.children.front(), inside ? insides_of(records) : topology::Insides(), is_job);
}

std::string TopoReport::sites_text() const {
  const std::vector<int32_t> sites = topology::members_by_rank(places(), Level::building);
  const int32_t count = 1 + *std::max_element(sites.begin(), sites.end());
  if (count == 1) return "one site: all ranks are close to each other";
  std::string text = fmt::format("{} sites:", count);
  for (int32_t site = 0; site < count; ++site) {
    std::vector<int32_t> ranks;
    for (size_t rank = 0; rank < sites.size(); ++rank) {
      if (sites[rank] == site) ranks.push_back(static_cast<int32_t>(rank));
    }
    text += fmt::format("{} {} {}", site == 0 ? "" : " |", ranks.size() == 1 ? "rank" : "ranks", number_ranges(ranks));
  }
  return text;
}

std::vector<int32_t> TopoReport::ucx_peers() const {
  std::vector<int32_t> peers;
  for (size_t rank = 1; rank < records.size(); ++rank) {
    const TopoRecord& record = records[rank];
    if (!record.ucx_address.empty() && record.place.host_id != records.front().place.host_id) peers.push_back(static_cast<int32_t>(rank));
  }
  return peers;
}

std::string TopoReport::ways_text() const {
  std::vector<std::pair<std::string, std::string>> found;  // lanes, hosts
  for (const UcxWay& way : ways) {
    const std::vector<std::string_view> names(way.lanes.begin(), way.lanes.end());
    const std::string lanes = way.trouble.empty() ? join(names, ", ") : way.trouble;
    const auto known = std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.first == lanes; });
    if (known == found.end()) {
      found.emplace_back(lanes, way.host);
    } else {
      known->second += ", " + way.host;
    }
  }
  std::string text;
  for (const auto& [lanes, hosts] : found) text += fmt::format("UCX from {} to {}: {}\n", records.front().place.hostname, hosts, lanes);
  return text;
}

std::string TopoReport::json() const {
  const std::vector<Place> all = places();
  const auto sites = topology::members_by_rank(all, Level::building);
  const auto division = topology::widest_division(all);
  Json ranks = Json::array(), hosts = Json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Json row = {{"rank", rank}, {"host", all[rank].hostname}, {"site", sites[rank]}, {"levels", Json::object()}};
    for (const Level level : topology::kNamedLevels) {
      if (const Claim* claim = all[rank].at(level)) row["levels"][std::string(name_of(level))] = json_of(*claim);
    }
    ranks.push_back(std::move(row));
    if (records[rank].inside) {
      hosts.push_back(json_of(*records[rank].inside));
      hosts.back()["name"] = all[rank].hostname;
    }
  }
  Json reached = Json::array();
  for (const UcxWay& way : ways) {
    reached.push_back({{"from", all.front().hostname}, {"to", way.host}, {"lanes", way.lanes}});
    if (!way.trouble.empty()) reached.back()["error"] = way.trouble;
  }
  const Json report = {{"schema", "isthmus.topo/1"},
                       {"job", is_job},
                       {"ranks", ranks},
                       {"divided_by", division ? Json(name_of(*division)) : Json(nullptr)},
                       {"tree", json_of(topology::make_tree(all))},
                       {"hosts", hosts},
                       {"ucx", reached},
                       {"warnings", warnings()}};
  return json_text(report, 2);
}

}  // namespace isthmus::cli
