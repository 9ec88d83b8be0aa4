// SPDX-License-Identifier: Apache-2.0
// The ladder's rungs, in order. See ladder.h.
#include "topology/discover/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/text.h"
#include "topology/discover/schedulers.h"

namespace isthmus::topology {
namespace {

void append(std::vector<Claim>& to, std::vector<Claim> more) { to.insert(to.end(), more.begin(), more.end()); }

Status add_settings(const Settings& settings, std::vector<Claim>& claims) {
  struct Row {
    Level level;
    std::string_view variable;
    const std::string& name;
  };
  for (const Row& row : {Row{Level::region, "ISTHMUS_REGION", settings.region}, Row{Level::building, "ISTHMUS_SITE", settings.site},
                         Row{Level::zone, "ISTHMUS_ZONE", settings.zone}}) {
    if (row.name.empty()) continue;
    // a site's name may be any text, and is passed on as it is
    if (row.level != Level::building) {
      ISTHMUS_TRY(check_name(row.name).with_context(fmt::format("{}: '{}'", row.variable, row.name.substr(0, 100))));
    }
    claims.push_back({.level = row.level, .name = row.name, .rung = Rung::setting, .source = std::string(row.variable)});
  }
  return {};
}

Status add_file(const Settings& settings, const Self& self, std::vector<Claim>& claims, std::vector<std::string>& warnings) {
  const std::string& path = settings.topology_file;
  if (path.empty()) return {};
  const std::string context = fmt::format("ISTHMUS_TOPOLOGY_FILE: {}", path);
  const auto text = read_text_file(path);
  if (!text.ok()) return text.status().with_context(context);
  const auto file = parse_place_file(*text);
  if (!file.ok()) return file.status().with_context(context);
  auto found = claims_of(*file, self, path);
  if (found.empty()) warnings.push_back(fmt::format("{} says nothing about host {}", context, self.hostname));
  append(claims, std::move(found));
  return {};
}

Status add_slurm(const Settings& settings, std::vector<Claim>& claims, std::vector<std::string>& warnings) {
  if (settings.slurm_address.empty() || settings.slurm_pattern.empty()) return {};
  auto found = slurm_claims(settings.slurm_address, settings.slurm_pattern, settings.slurm_levels);
  if (!found.ok() && !settings.slurm_levels.empty()) return found.status();  // then somebody counts on it
  if (!found.ok()) {
    warnings.push_back(found.status().text() + "; ignored");
    return {};
  }
  append(claims, std::move(found).value());
  return {};
}

Status add_kubernetes(const Settings& settings, std::vector<Claim>& claims, std::vector<std::string>& warnings) {
  const std::string& path = settings.topology_labels;
  if (path.empty()) return {};
  const std::string context = fmt::format("ISTHMUS_TOPOLOGY_LABELS: {}", path);
  const auto text = read_text_file(path);
  if (!text.ok()) return text.status().with_context(context);
  auto found = kubernetes_claims(*text, path);
  if (!found.ok()) return found.status().with_context(context);
  if (found->empty()) {
    warnings.push_back(context + " has neither topology.kubernetes.io/zone nor /region: are the node's labels copied to the pod?");
  }
  append(claims, std::move(found).value());
  return {};
}

/// "building=16" or "building=16/48": so many bits of an IPv4 address, and of an IPv6 one.
struct PrefixRule {
  Level level;
  int bits_v4, bits_v6;  ///< -1: not of that family
};

Result<PrefixRule> parse_prefix_rule(std::string_view word) {
  const size_t equals = word.find('='), slash = word.find('/');
  const auto level = level_named(trim(word.substr(0, equals)));
  const auto refused = [&] {
    return invalid_argument(fmt::format(
        "ISTHMUS_TOPOLOGY_PREFIX: '{}' is not accepted; LEVEL=BITS or LEVEL=BITS/BITS6 is, such as building=16,zone=24 or building=16/48",
        word));
  };
  if (equals == std::string_view::npos || !level || *level == Level::host) return refused();
  PrefixRule rule{.level = *level, .bits_v4 = -1, .bits_v6 = -1};
  const size_t v4_size = slash == std::string_view::npos ? slash : slash - equals - 1;
  const auto v4 = parse_unsigned(trim(word.substr(equals + 1, v4_size)), 32);
  if (!v4.ok() || (slash != std::string_view::npos && slash < equals)) return refused();
  rule.bits_v4 = static_cast<int>(*v4);
  if (slash == std::string_view::npos) return rule;
  const auto v6 = parse_unsigned(trim(word.substr(slash + 1)), 128);
  if (!v6.ok()) return refused();
  rule.bits_v6 = static_cast<int>(*v6);
  return rule;
}

Status add_prefixes(const Settings& settings, const Self& self, std::vector<Claim>& claims, std::vector<std::string>& warnings) {
  for (const std::string_view word : split(settings.topology_prefix, ',')) {
    ISTHMUS_ASSIGN(const PrefixRule rule, parse_prefix_rule(word));
    const auto usable = [&](const Ip& ip) { return !is_everywhere(ip) && (ip.family == 4 ? rule.bits_v4 : rule.bits_v6) >= 0; };
    const auto ip = std::find_if(self.addresses.begin(), self.addresses.end(), usable);
    if (ip == self.addresses.end()) {
      warnings.push_back(fmt::format("ISTHMUS_TOPOLOGY_PREFIX: host {} has no address for '{}'", self.hostname, word));
      continue;
    }
    std::string name = text_of(network_of(*ip, ip->family == 4 ? rule.bits_v4 : rule.bits_v6));
    std::replace(name.begin(), name.end(), '/', '_');  // '/' separates levels
    claims.push_back({.level = rule.level,
                      .name = std::move(name),
                      .rung = Rung::address,
                      .source = fmt::format("ISTHMUS_TOPOLOGY_PREFIX and address {}", text_of(*ip))});
  }
  return {};
}

}  // namespace

bool needs_addresses(const Settings& settings) { return !settings.topology_file.empty() || !settings.topology_prefix.empty(); }

Result<Place> find_place(const Settings& settings, const Self& self, std::vector<std::string>& warnings) {
  Place place{.host_id = self.host_id, .hostname = self.hostname, .claims = {}};
  ISTHMUS_TRY(add_settings(settings, place.claims));
  ISTHMUS_TRY(add_file(settings, self, place.claims, warnings));
  ISTHMUS_TRY(add_slurm(settings, place.claims, warnings));
  ISTHMUS_TRY(add_kubernetes(settings, place.claims, warnings));
  ISTHMUS_TRY(add_prefixes(settings, self, place.claims, warnings));
  return place;
}

std::string describe(const Place& place) {
  std::string text;
  for (const Level level : kNamedLevels) {
    const Claim* claim = place.at(level);
    if (claim != nullptr) text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", name_of(level), claim->name, claim->source);
  }
  return text.empty() ? "not known" : text;
}

}  // namespace isthmus::topology
