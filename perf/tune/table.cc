// SPDX-License-Identifier: Apache-2.0
// Reading of perf/tune/table.json. Called by parse_table()'s users; a table that is not what tuning.h says is refused with the reason.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "collectives/registry.h"
#include "perf/tune/tuning.h"

namespace isthmus::tune {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kReaches = {"process", "host", "network"};

double rate_of(const Json& gbyte_per_s) { return gbyte_per_s.get<double>() * 1e9; }
TimeNs nanoseconds_of(const Json& us) { return std::llround(us.get<double>() * 1e3); }

plan::LinkCost link_of(const Json& json) {
  return {.latency_ns = nanoseconds_of(json.at("latency_us")),
          .overhead_ns = nanoseconds_of(json.at("overhead_us")),
          .rate_bytes_per_s = rate_of(json.at("gbyte_per_s"))};
}

/// Position of `name` in `names`, which follow the enum's order.
template <typename Enum, typename Names>
Result<Enum> named(const std::string& name, const Names& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return invalid_argument(fmt::format("\"{}\" is not one of {}", name, join(names, ", ")));
  return static_cast<Enum>(found - names.begin());
}

template <typename T>
Result<std::vector<T>> ascending(const Json& json, const char* name) {
  auto values = json.at(name).get<std::vector<T>>();
  if (!values.empty() && std::is_sorted(values.begin(), values.end())) return values;
  return invalid_argument(fmt::format("\"{}\" must be an ascending list", name));
}

Result<Machine> machine_of(plan::Reach reach, const Json& json) {
  constexpr std::array<std::string_view, 4> kPorts = {"sender", "receiver", "shared", "line"};
  const Json& port = json.at("port");
  ISTHMUS_ASSIGN(std::vector<uint32_t> segments, ascending<uint32_t>(json, "segments"));
  ISTHMUS_ASSIGN(const Port kind, named<Port>(port.at("of").get<std::string>(), kPorts));
  return Machine{.reach = reach,
                 .link = link_of(json.at("link")),
                 .port = kind,
                 .port_cost = link_of(port),
                 .reduce_rate_bytes_per_s = rate_of(json.at("reduce_gbyte_per_s")),
                 .copy_rate_bytes_per_s = rate_of(json.at("copy_gbyte_per_s")),
                 .step_ns = nanoseconds_of(json.at("step_us")),
                 .segments = std::move(segments)};
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
  ISTHMUS_ASSIGN(const plan::Reach reach, named<plan::Reach>(row.at(1).get<std::string>(), kReaches));
  const Point point = {
      .collective = algorithm->collective, .reach = reach, .ranks = row.at(2).get<int32_t>(), .bytes = row.at(3).get<uint64_t>()};
  table.measured[point].push_back({{algorithm, row.at(5).get<uint32_t>()}, nanoseconds_of(row.at(6))});
  return {};
}

Result<Table> table_of(const Json& json) {
  Table table;
  for (size_t i = 0; i < kReaches.size(); ++i) {
    const Json& machine = json.at("machines").at(std::string(kReaches[i]));
    ISTHMUS_ASSIGN(table.machines.emplace_back(), machine_of(static_cast<plan::Reach>(i), machine));
  }
  ISTHMUS_ASSIGN(table.ranks, ascending<int32_t>(json, "ranks"));
  ISTHMUS_ASSIGN(table.bytes, ascending<uint64_t>(json, "bytes"));
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
