// SPDX-License-Identifier: Apache-2.0
// settings.h: from sources (environment, configuration files, or what a test makes up) through the table to one Settings value, and
// the table as documentation. The only file that reads the environment.
#include "base/settings.h"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/settings_table.h"
#include "base/text.h"

namespace isthmus {
namespace {

constexpr std::string_view kOurs = "ISTHMUS_";
constexpr std::string_view kNccl = "NCCL_";
constexpr size_t kMaxConfBytes = 1 << 20;

struct Found {
  std::string_view name, value, source;
};

std::optional<Found> find(std::span<const SettingSource> sources, std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const SettingSource& source : sources) {
    if (const auto at = source.variables.find(name); at != source.variables.end()) return Found{name, at->second, source.name};
  }
  return std::nullopt;
}

std::string describe(const Found& found) { return fmt::format("{}={} ({})", found.name, found.value, found.source); }

/// Parses one row into `settings`; `report` gets the row as it stands now.
Status apply(const SettingDefinition& row, std::span<const SettingSource> sources, Settings& settings, SettingsReport& report) {
  SettingRow shown{.name = row.name,
                   .default_text = row.default_text,
                   .doc = row.doc,
                   .nccl_name = row.nccl_name,
                   .value = std::string(row.default_text),
                   .source = "default"};
  std::optional<Found> found = find(sources, row.name);
  const bool ours = found.has_value();
  if (!ours) found = find(sources, row.nccl_name);
  if (found) {
    std::vector<std::string> notes;
    const auto parse = !ours && row.parse_nccl != nullptr ? row.parse_nccl : row.parse;
    Settings changed = settings;
    const Status status = parse(trim(found->value), changed, notes);
    if (!status.ok() && ours) return status.with_context(describe(*found));
    if (!status.ok()) report.warnings.push_back(fmt::format("{} is ignored: {}", describe(*found), status.text()));
    for (const std::string& note : notes) report.warnings.push_back(fmt::format("{}: {}", describe(*found), note));
    if (status.ok()) {
      settings = std::move(changed);
      shown.value = found->value;
      shown.source = ours ? std::string(found->source) : fmt::format("{} ({})", found->source, found->name);
    }
  }
  report.rows.push_back(std::move(shown));
  return {};
}

bool is_defined(std::string_view name) {
  const auto rows = setting_definitions();
  return std::any_of(rows.begin(), rows.end(), [&](const SettingDefinition& row) { return name == row.name || name == row.nccl_name; });
}

/// The names that a misspelt `name` could have meant.
std::vector<std::string_view> names_like(std::string_view prefix) {
  std::vector<std::string_view> names;
  for (const SettingDefinition& row : setting_definitions()) {
    for (const std::string_view name : {row.name, row.nccl_name})
      if (name.starts_with(prefix)) names.push_back(name);
  }
  return names;
}

std::string unknown_name(std::string_view name, std::string_view prefix, std::string_view source) {
  const std::vector<std::string_view> known = names_like(prefix);
  // Compared without the prefix, or every name would look like every other.
  std::vector<std::string_view> tails;
  tails.reserve(known.size());
  for (const std::string_view one : known) tails.push_back(one.substr(prefix.size()));
  const std::string_view best = nearest(name.substr(prefix.size()), tails);
  const std::string hint = best.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, best);
  return fmt::format("{} ({}) is not known and is ignored{}", name, source, hint);
}

/// Variables that the launcher and the programs around the library read, not the library.
bool is_for_programs(std::string_view name) { return name.starts_with("ISTHMUS_RUN_") || name.starts_with("NCCL_TESTS_"); }

void report_leftovers(std::span<const SettingSource> sources, SettingsReport& report) {
  const auto unused = unused_nccl_names();
  std::vector<std::string_view> ignored;
  for (const SettingSource& source : sources) {
    for (const auto& [name, value] : source.variables) {
      if (is_defined(name) || is_for_programs(name)) continue;
      if (name.starts_with(kOurs)) report.warnings.push_back(unknown_name(name, kOurs, source.name));
      if (!name.starts_with(kNccl)) continue;
      if (std::binary_search(unused.begin(), unused.end(), std::string_view(name))) {
        ignored.push_back(name);
      } else {
        report.warnings.push_back(unknown_name(name, kNccl, source.name));
      }
    }
  }
  if (!ignored.empty()) report.warnings.push_back(fmt::format("of no meaning here and ignored: {}", join(ignored, ", ")));
}

SettingSource read_environment() {
  SettingSource source{.name = "environment", .variables = {}};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    source.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return source;
}

std::optional<SettingSource> read_conf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxConfBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_conf(path, text);
}

std::string user_conf_path(std::span<const SettingSource> sources) {
  for (const std::string_view name : {"ISTHMUS_CONF_FILE", "NCCL_CONF_FILE"})
    if (const auto found = find(sources, name)) return std::string(found->value);
  const auto home = find(sources, "HOME");
  return home ? std::string(home->value) + "/.nccl.conf" : "";
}

}  // namespace

Result<Settings> parse_settings(std::span<const SettingSource> sources, SettingsReport* report) {
  SettingsReport unread;
  SettingsReport& out = report != nullptr ? *report : unread;
  out = {};
  Settings settings;
  for (const SettingDefinition& row : setting_definitions()) ISTHMUS_TRY(apply(row, sources, settings, out));
  report_leftovers(sources, out);
  return settings;
}

SettingSource parse_conf(std::string name, std::string_view text) {
  SettingSource source{.name = std::move(name), .variables = {}};
  for (const std::string_view line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    source.variables.emplace(trim(line.substr(0, equals)), trim(line.substr(equals + 1)));  // the first of two lines wins, as in NCCL
  }
  return source;
}

void set_variable(const char* name, const char* value) { setenv(name, value, 1); }

std::vector<std::string> whole_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

Result<Settings> settings_from_environment(SettingsReport* report) {
  if (getauxval(AT_SECURE) != 0) {
    auto settings = parse_settings({}, report);
    if (report != nullptr) report->warnings.emplace_back("this program runs with elevated privileges: all settings are ignored");
    return settings;
  }
  std::vector<SettingSource> sources = {read_environment()};
  std::vector<std::string> missing;
  if (const std::string path = user_conf_path(sources); !path.empty()) {
    if (auto conf = read_conf(path)) {
      sources.push_back(std::move(*conf));
    } else if (!path.ends_with("/.nccl.conf")) {
      missing.push_back(fmt::format("the configuration file {} cannot be read and is ignored", path));
    }
  }
  if (auto conf = read_conf("/etc/nccl.conf")) sources.push_back(std::move(*conf));
  auto settings = parse_settings(sources, report);
  if (report != nullptr) report->warnings.insert(report->warnings.end(), missing.begin(), missing.end());
  return settings;
}

std::string settings_markdown() {
  std::string text =
      "# Settings\n\n"
      "Read once, when the library is first used: from the environment, then from a configuration file of `NAME=value` lines\n"
      "(`ISTHMUS_CONF_FILE` or `~/.nccl.conf`), then from `/etc/nccl.conf`; the first that has a name wins. Durations are written\n"
      "`250ms`, `30s`, `2m`; sizes `4096`, `256K`, `64M`; switches `1` or `0`. A bad value fails the start with its name; an unknown\n"
      "name is reported. A program that runs with elevated privileges ignores them all.\n\n"
      "| name | NCCL's name | default | meaning |\n|---|---|---|---|\n";
  for (const SettingDefinition& row : setting_definitions()) {
    const auto code = [](std::string_view word) { return word.empty() ? std::string() : fmt::format("`{}`", word); };
    text += fmt::format("| {} | {} | {} | {} |\n", code(row.name), code(row.nccl_name), code(row.default_text), row.doc);
  }
  return text;
}

}  // namespace isthmus
