// SPDX-License-Identifier: Apache-2.0
// Topology files. See place_file.h.
#include "topology/discover/place_file.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"

namespace isthmus::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "isthmus.topology/1";
constexpr size_t kMaxName = 100;
constexpr size_t kMaxEntries = 100'000;

/// "eu/fra1/r1": region, building, zone; what is empty or missing at the end is not named.
Status parse_path(std::string_view path, std::map<Level, std::string>& names) {
  for (const Level level : kNamedLevels) {
    const size_t slash = path.find('/');
    const std::string_view name = trim(path.substr(0, slash));
    if (!name.empty()) {
      ISTHMUS_TRY(check_name(name).with_context(fmt::format("the {} '{}'", name_of(level), name)));
      names[level] = name;
    }
    if (slash == std::string_view::npos) {
      if (names.empty()) return invalid_argument("the path is empty; REGION/BUILDING/ZONE is accepted, such as eu/fra1 or /fra1/r1");
      return {};
    }
    path.remove_prefix(slash + 1);
  }
  return invalid_argument("the path has more than three parts; REGION/BUILDING/ZONE is accepted");
}

Result<PlaceFile::Entry> parse_entry(const std::string& pattern, const Json& path) {
  PlaceFile::Entry entry{.pattern = pattern};
  if (pattern.empty()) return invalid_argument("the pattern is empty; a host name, a pattern such as a*, or a network is accepted");
  if (pattern.find('/') != std::string::npos || parse_ip(pattern).ok()) {
    ISTHMUS_ASSIGN(entry.network, parse_network(pattern));
  }
  if (!path.is_string()) return invalid_argument("the path must be text, such as \"eu/fra1/r1\"");
  ISTHMUS_TRY(parse_path(path.get_ref<const std::string&>(), entry.names));
  return entry;
}

/// Keeps the parser from taking the last of two equal keys in silence.
class Repetitions {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen_.clear();
    if (event == Json::parse_event_t::key && depth == 2 && !seen_.insert(parsed.get_ref<const std::string&>()).second) {
      first_ = first_.empty() ? parsed.get_ref<const std::string&>() : first_;
    }
    return true;
  }
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  std::set<std::string> seen_;
  std::string first_;
};

/// The library's words without its own number in front: "parse error at line 3, column 7: ...".
std::string reason_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const size_t end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

Result<PlaceFile> parse_json(std::string_view text) {
  Json document;
  Repetitions repetitions;
  try {
    document = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) { return repetitions(depth, event, parsed); });
  } catch (const Json::exception& error) {  // numbers that no double holds are no parse error
    return invalid_argument(reason_of(error));
  }
  if (!repetitions.first().empty()) return invalid_argument(fmt::format("places: '{}' is there twice; remove one", repetitions.first()));
  const auto schema = document.find("schema");
  if (schema == document.end() || *schema != kSchema) {
    return invalid_argument(fmt::format("schema must be \"{}\", so that later forms can be told from this one", kSchema));
  }
  for (const auto& [key, value] : document.items()) {
    if (key != "schema" && key != "places" && key != "comment") {
      return invalid_argument(fmt::format("'{}' is not known; schema, places and comment are accepted", key));
    }
  }
  const auto places = document.find("places");
  if (places == document.end() || !places->is_object()) {
    return invalid_argument("places must be an object of patterns and paths, such as {\"fra1-*\": \"eu/fra1\"}");
  }
  if (places->size() > kMaxEntries) return invalid_argument(fmt::format("places has more than {} entries; use patterns", kMaxEntries));
  PlaceFile file;
  for (const auto& [pattern, path] : places->items()) {
    auto entry = parse_entry(pattern, path);
    if (!entry.ok()) return entry.status().with_context(fmt::format("places: \"{}\"", pattern));
    file.entries.push_back(std::move(entry).value());
  }
  return file;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

Result<PlaceFile> parse_lines(std::string_view text) {
  PlaceFile::Entry entry;
  size_t number = 0;
  for (const std::string_view whole : lines_of(text)) {
    const std::string_view line = trim(whole);
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return invalid_argument(
          fmt::format("line {}: '{}' has no '='; KEY=VALUE lines are accepted, or a JSON object", number, line.substr(0, 40)));
    }
    const std::string key = lower(trim(line.substr(0, equals)));
    const auto level = key == "site" ? Level::building : level_named(key);
    const std::string_view name = without_quotes(trim(line.substr(equals + 1)));
    if (!level || *level == Level::host || name.empty()) continue;  // such files say other things, too
    ISTHMUS_TRY(check_name(name).with_context(fmt::format("line {}: {} '{}'", number, key, name.substr(0, kMaxName))));
    if (!entry.names.try_emplace(*level, name).second) {
      return invalid_argument(fmt::format("line {}: the {} is named for the second time; remove one", number, name_of(*level)));
    }
  }
  if (entry.names.empty()) return invalid_argument("no line says REGION=, BUILDING= (or SITE=) or ZONE=");
  return PlaceFile{.entries = {std::move(entry)}};
}

bool matches(const PlaceFile::Entry& entry, const Self& self) {
  if (entry.pattern.empty()) return true;
  if (entry.network) {
    return std::any_of(self.addresses.begin(), self.addresses.end(), [&](const Ip& ip) { return contains(*entry.network, ip); });
  }
  const std::string pattern = lower(entry.pattern), full = lower(self.hostname), brief = full.substr(0, full.find('.'));
  return fnmatch(pattern.c_str(), full.c_str(), 0) == 0 || fnmatch(pattern.c_str(), brief.c_str(), 0) == 0;
}

}  // namespace

Result<PlaceFile> parse_place_file(std::string_view text) { return trim(text).starts_with('{') ? parse_json(text) : parse_lines(text); }

std::vector<Claim> claims_of(const PlaceFile& file, const Self& self, std::string_view path) {
  std::map<Level, Claim> first;
  for (const PlaceFile::Entry& entry : file.entries) {
    if (!matches(entry, self)) continue;
    for (const auto& [level, name] : entry.names) {
      std::string source = entry.pattern.empty() ? std::string(path) : fmt::format("{}: \"{}\"", path, entry.pattern);
      first.try_emplace(level, Claim{.level = level, .name = name, .rung = Rung::file, .source = std::move(source)});
    }
  }
  std::vector<Claim> claims;
  claims.reserve(first.size());
  for (auto& [level, claim] : first) claims.push_back(std::move(claim));
  return claims;
}

Status check_name(std::string_view name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
  if (!name.empty() && name.size() <= kMaxName && printable && name.find('/') == std::string_view::npos) return {};
  return invalid_argument(fmt::format("is no name: 1 to {} printable characters without '/' are accepted", kMaxName));
}

}  // namespace isthmus::topology
