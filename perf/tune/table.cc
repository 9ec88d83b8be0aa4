// SPDX-License-Identifier: Apache-2.0
// Reading of perf/tune/table.json. Called by parse_table()'s users; a table that is not what tuning.h says is refused with the reason.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "collectives/registry.h"
#include "perf/tune/tuning.h"

namespace isthmus::tune {

namespace {

using Json = nlohmann::json;

constexpr std::array kReaches = {plan::Reach::process, plan::Reach::host, plan::Reach::network};

double rate(const Json& machine, const char* name) { return machine.at(name).get<double>() * 1e9; }
TimeNs nanoseconds(const Json& machine, const char* name) { return static_cast<TimeNs>(machine.at(name).get<double>() * 1e3 + 0.5); }

Machine machine_of(plan::Reach reach, const Json& json) {
  return {.reach = reach,
          .link = {.latency_ns = nanoseconds(json, "latency_us"),
                   .overhead_ns = nanoseconds(json, "overhead_us"),
                   .rate_bytes_per_s = rate(json, "link_gbyte_per_s")},
          .port_rate_bytes_per_s = rate(json, "port_gbyte_per_s"),
          .port_of_receiver = json.at("port").get<std::string>() == "receiver",
          .far_latency_ns = json.contains("far_latency_us") ? nanoseconds(json, "far_latency_us") : 0,
          .reduce_rate_bytes_per_s = rate(json, "reduce_gbyte_per_s"),
          .copy_rate_bytes_per_s = rate(json, "copy_gbyte_per_s"),
          .step_ns = nanoseconds(json, "step_us")};
}

Result<plan::Reach> reach_of(const std::string& name) {
  const auto found = std::find_if(kReaches.begin(), kReaches.end(), [&](plan::Reach reach) { return name_of(reach) == name; });
  if (found == kReaches.end()) return invalid_argument(fmt::format("there is no reach \"{}\"", name));
  return *found;
}

const plan::Algorithm* algorithm_of(const std::string& collective, const std::string& name) {
  for (const plan::Algorithm* algorithm : collectives::registry()) {
    if (name_of(algorithm->collective) == collective && algorithm->name == name) return algorithm;
  }
  return nullptr;
}

/// ["allreduce", "host", ranks, bytes, "ring", segments, microseconds]
Status add_measurement(Table& table, const Json& row) {
  const plan::Algorithm* algorithm = algorithm_of(row.at(0).get<std::string>(), row.at(4).get<std::string>());
  if (algorithm == nullptr) return invalid_argument(fmt::format("no algorithm is called like that: {}", row.dump()));
  ISTHMUS_ASSIGN(const plan::Reach reach, reach_of(row.at(1).get<std::string>()));
  const Point point = {
      .collective = algorithm->collective, .reach = reach, .ranks = row.at(2).get<int32_t>(), .bytes = row.at(3).get<uint64_t>()};
  const auto time_ns = static_cast<TimeNs>(row.at(6).get<double>() * 1e3);
  table.measured[point].push_back({{algorithm, row.at(5).get<uint32_t>()}, time_ns});
  return {};
}

template <typename T>
Result<std::vector<T>> ascending(const Json& json, const char* name) {
  auto values = json.at(name).get<std::vector<T>>();
  if (!values.empty() && std::is_sorted(values.begin(), values.end())) return values;
  return invalid_argument(fmt::format("\"{}\" must be an ascending list", name));
}

Result<Table> table_of(const Json& json) {
  Table table;
  for (plan::Reach reach : kReaches) table.machines.push_back(machine_of(reach, json.at("machines").at(std::string(name_of(reach)))));
  ISTHMUS_ASSIGN(table.ranks, ascending<int32_t>(json, "ranks"));
  ISTHMUS_ASSIGN(table.bytes, ascending<uint64_t>(json, "bytes"));
  ISTHMUS_ASSIGN(table.segments, ascending<uint32_t>(json, "segments"));
  for (const Json& row : json.at("measured")) ISTHMUS_TRY(add_measurement(table, row));
  return table;
}

}  // namespace

Result<Table> parse_table(std::string_view json) {
  try {
    auto table = table_of(Json::parse(json));
    return table.ok() ? std::move(table) : table.status().with_context("tuning table");
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("tuning table: {}", error.what()));
  }
}

}  // namespace isthmus::tune
