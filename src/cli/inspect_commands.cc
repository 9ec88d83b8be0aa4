// SPDX-License-Identifier: Apache-2.0
// `isthmus settings` and `isthmus algorithms`: the library's tables, as they are compiled into this build.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/settings.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "collectives/registry.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::ordered_json;

int fail(const Status& status) {
  fmt::print(stderr, "isthmus: {}\n", status.text());
  return 1;
}

Json settings_json(const SettingsReport& report) {
  Json rows = Json::array();
  for (const SettingRow& row : report.rows) {
    rows.push_back({{"name", row.name}, {"value", row.value}, {"source", row.source}, {"default", row.default_text}, {"doc", row.doc}});
  }
  return {{"settings", rows}, {"warnings", report.warnings}};
}

void print_settings(const SettingsReport& report) {
  for (const SettingRow& row : report.rows) {
    fmt::print("{} = {}  ({})\n    {}\n", row.name, row.value.empty() ? "\"\"" : row.value, row.source, row.doc);
  }
  for (const std::string& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
}

/// What an algorithm does with a codec; null for those that send elements as they are.
Json coding_json(plan::Coding coding) {
  if (coding == plan::Coding::none) return nullptr;
  return coding == plan::Coding::sums ? "sums" : "decoding";
}

void add_rows(Json& rows, collectives::Algorithms list) {
  for (const plan::Algorithm* algorithm : list) {
    Json row = {{"collective", name_of(algorithm->collective)},
                {"name", algorithm->name},
                {"coding", coding_json(algorithm->needs.coding)},
                {"min_ranks", algorithm->needs.min_ranks},
                {"max_ranks", algorithm->needs.max_ranks == INT32_MAX ? Json(nullptr) : Json(algorithm->needs.max_ranks)},
                {"power_of_two", algorithm->needs.power_of_two},
                {"steps", algorithm->steps_formula},
                {"bytes", algorithm->bytes_formula},
                {"tunables", Json::array()}};
    for (const plan::Tunable& tunable : algorithm->tunables) {
      row["tunables"].push_back({{"name", tunable.name}, {"min", tunable.min}, {"max", tunable.max}});
      if (tunable.name != "across") continue;
      for (uint32_t at = tunable.min; at <= tunable.max; ++at) row["tunables"].back()["names"].push_back(plan::kAcrossNames[at]);
    }
    for (const plan::Variant& variant : algorithm->variants) {
      row["variants"].push_back({{"across", name_of(variant.across)}, {"steps", variant.steps_formula}, {"bytes", variant.bytes_formula}});
    }
    rows.push_back(std::move(row));
  }
}

Json algorithms_json() {
  Json rows = Json::array();
  add_rows(rows, collectives::registry());
  add_rows(rows, collectives::compressed_registry());
  return rows;
}

}  // namespace

void add_settings(CLI::App& app, Outcome& outcome) {
  CLI::App* settings = app.add_subcommand("settings", "Lists every setting: its value here, who set it, its default and its meaning");
  const auto json = std::make_shared<bool>(false);
  const auto markdown = std::make_shared<bool>(false);
  settings->add_flag("--json", *json, "As JSON");
  settings->add_flag("--markdown", *markdown, "The page docs/settings.md")->excludes("--json");
  settings->callback([json, markdown, &outcome] {
    if (*markdown) {
      fmt::print("{}", settings_markdown());
      return;
    }
    SettingsReport report;
    const Result<Settings> parsed = settings_from_environment(&report);
    if (!parsed.ok()) {
      outcome.exit_code = fail(parsed.status());
    } else if (*json) {
      fmt::print("{}\n", json_text(settings_json(report), 2));
    } else {
      print_settings(report);
    }
  });
}

void add_algorithms(CLI::App& app, Outcome&) {
  CLI::App* algorithms =
      app.add_subcommand("algorithms", "Lists every algorithm with its steps, the bytes each rank sends, and the ranks it serves");
  const auto json = std::make_shared<bool>(false);
  const auto markdown = std::make_shared<bool>(false);
  algorithms->add_flag("--json", *json, "As JSON");
  algorithms->add_flag("--markdown", *markdown, "The page docs/algorithms.md")->excludes("--json");
  algorithms->callback([json, markdown] {
    fmt::print("{}", *json       ? json_text(algorithms_json(), 2) + "\n"
                     : *markdown ? collectives::algorithms_markdown()
                                 : collectives::algorithms_text());
  });
}

}  // namespace isthmus::cli
