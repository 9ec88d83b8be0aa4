// SPDX-License-Identifier: Apache-2.0
// Runs bars by name. Exit codes: 0 all reached, 1 one missed, 2 wrong command line.
#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "bars.h"

int main(int argc, char** argv) {
  using isthmus::bars::Options;
  const std::map<std::string, bool (*)(const Options&)> bars = {{"V1", isthmus::bars::formulas}, {"V8", isthmus::bars::planner_speed}};
  CLI::App app("What the planner must reach; prints figures and verdicts");
  std::vector<std::string> names;
  Options options;
  app.add_option("bars", names, "V1: closed forms; V8: speed of planning")->required()->check(CLI::IsMember(bars));
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--trials", options.trials, "Random machines")->check(CLI::Range(1, 100000))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  bool reached = true;
  for (const std::string& name : names) reached = bars.at(name)(options) && reached;
  return reached ? 0 : 1;
}
