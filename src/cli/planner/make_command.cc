// SPDX-License-Identifier: Apache-2.0
// `isthmus plan make`: plans a job that need not run, from a layout and a profile.
#include <fmt/format.h>

#include <memory>

#include "base/text.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/planner/inputs.h"
#include "topology/planner/tuner_csv.h"

namespace isthmus::cli {
namespace {

struct Words {
  SceneWords scene;
  std::string pins, output, format = "text", most_bytes = "64M";
  double hysteresis_percent = 5;
};

constexpr std::string_view kFooter =
    "Candidates are all algorithms in all numbers of segments; closed forms leave out what cannot win, the others are priced by running "
    "their "
    "plans\n"
    "in virtual time on the links of the profile. The same inputs give the same plan, byte for byte.\n"
    "\n"
    "Examples:\n"
    "  isthmus plan make --layout 2x4 --profile profile.json\n"
    "  isthmus plan make --layout job.json --profile profile.json --format json -o plan.json\n"
    "  ISTHMUS_PLAN_FILE=plan.json ...";

Status make(const Words& words) {
  ISTHMUS_ASSIGN(const topology::Scene scene, make_scene(words.scene));
  topology::SearchOptions options;
  ISTHMUS_ASSIGN(options.most_bytes, parse_bytes(words.most_bytes));
  if (options.most_bytes < options.least_bytes || options.most_bytes > kMostBytes) {
    return invalid_argument("--max-bytes: from 8 to 1T is accepted");
  }
  if (!(words.hysteresis_percent >= 0)) return invalid_argument("--hysteresis: a number from 0 to 100 is accepted");
  options.hysteresis = words.hysteresis_percent / 100;
  if (!words.pins.empty()) {
    ISTHMUS_ASSIGN(options.pins, read_pins(words.pins, scene.layout()));
  }
  ISTHMUS_ASSIGN(const topology::PlanFile plan, topology::make_plan_file(scene, options));
  const std::string text = words.format == "json"  ? topology::to_json(plan)
                           : words.format == "csv" ? topology::to_tuner_csv(plan, scene.layout().count(topology::Level::host))
                                                   : topology::to_text(plan);
  return write_output(words.output, text);
}

}  // namespace

void add_plan_make(CLI::App& plan, Outcome& outcome) {
  CLI::App* command = plan.add_subcommand("make", "Chooses algorithms for every size, for a job described by a layout and a profile");
  const auto words = std::make_shared<Words>();
  add_scene_options(*command, words->scene, true);
  command->add_option("--pins", words->pins, "Choices that stand, from a plan file's pins or one of NCCL's tuner tables");
  command->add_option("--format", words->format, "text; json: the plan file; csv: a table for NCCL's example tuner")
      ->check(CLI::IsMember({"text", "json", "csv"}))
      ->capture_default_str();
  command->add_option("-o,--output", words->output, "Into this FILE instead of standard output");
  command->add_option("--max-bytes", words->most_bytes, "The largest size that is looked at; beyond, its choice stands")
      ->capture_default_str();
  command->add_option("--hysteresis", words->hysteresis_percent, "A choice is left for one that is quicker by more than so many percent")
      ->check(finite_in(0, 100))
      ->capture_default_str();
  command->footer(std::string(kFooter));
  command->callback([words, &outcome] {
    if (const Status made = make(*words); !made.ok()) {
      fmt::print(stderr, "isthmus plan make: {}\n", made.text());
      outcome.exit_code = made.code() == Code::invalid_argument ? 2 : 1;
    }
  });
}

}  // namespace isthmus::cli
