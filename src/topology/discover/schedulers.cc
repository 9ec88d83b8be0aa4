// SPDX-License-Identifier: Apache-2.0
// Slurm and Kubernetes. See schedulers.h.
#include "topology/discover/schedulers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "topology/discover/place_file.h"

namespace isthmus::topology {
namespace {

constexpr std::string_view kAddress = "SLURM_TOPOLOGY_ADDR";
constexpr std::string_view kRegionLabel = "topology.kubernetes.io/region", kZoneLabel = "topology.kubernetes.io/zone";

/// The value of a label as the downward API writes it: in double quotes, with backslashes before quotes and backslashes.
Result<std::string> unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return invalid_argument("has no value in double quotes");
  std::string value;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] == '\\' && at + 2 < text.size()) ++at;
    value += text[at];
  }
  return value;
}

}  // namespace

Result<std::vector<Claim>> slurm_claims(std::string_view address, std::string_view pattern, std::string_view levels) {
  const auto kinds = split(pattern, '.');
  std::vector<std::string_view> names = split(address, '.');
  const bool has_node = !kinds.empty() && kinds.back() == "node";
  if (has_node && names.size() > kinds.size()) names.resize(kinds.size());  // dots in the node's own name
  if (!has_node || names.size() != kinds.size()) {
    return invalid_argument(fmt::format("{}={} does not fit SLURM_TOPOLOGY_ADDR_PATTERN={}", kAddress, address, pattern));
  }
  names.pop_back();
  std::vector<std::string_view> words = split(levels.empty() ? "zone" : levels, ',');
  std::vector<Claim> claims;
  while (!words.empty() && !names.empty()) {
    const std::string_view word = words.back(), name = names.back();
    words.pop_back();
    names.pop_back();
    if (word == "-") continue;
    const auto level = level_named(word);
    if (!level || *level == Level::host) {
      return invalid_argument(
          fmt::format("ISTHMUS_SLURM_LEVELS: '{}' is no level; region, building, zone and - are accepted, from the top "
                      "switch to the leaf",
                      word));
    }
    ISTHMUS_TRY(check_name(name).with_context(fmt::format("{}: '{}'", kAddress, name.substr(0, 100))));
    claims.push_back({.level = *level, .name = std::string(name), .rung = Rung::slurm, .source = std::string(kAddress)});
  }
  return claims;
}

Result<std::vector<Claim>> kubernetes_claims(std::string_view text, std::string_view path) {
  std::vector<Claim> claims;
  size_t number = 0;
  for (const std::string_view whole : lines_of(text)) {
    const std::string_view line = trim(whole);
    ++number;
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const std::string_view label = line.substr(0, equals);
    if (equals == std::string_view::npos) {
      return invalid_argument(fmt::format("line {}: '{}' is no label; lines such as {}=\"a\" are accepted, as the downward API writes them",
                                          number, line.substr(0, 40), kZoneLabel));
    }
    if (label != kRegionLabel && label != kZoneLabel) continue;
    const auto value = unquoted(line.substr(equals + 1));
    if (!value.ok()) return value.status().with_context(fmt::format("line {}: {}", number, label));
    ISTHMUS_TRY(check_name(*value).with_context(fmt::format("line {}: {}: '{}'", number, label, value->substr(0, 100))));
    claims.push_back({.level = label == kZoneLabel ? Level::building : Level::region,
                      .name = *value,
                      .rung = Rung::kubernetes,
                      .source = fmt::format("{}: {}", path, label)});
  }
  return claims;
}

}  // namespace isthmus::topology
