// SPDX-License-Identifier: Apache-2.0
// tune: writes the built-in rule table. Run by hand after the table, the cost walk or an algorithm has changed:
//   build/perf/tune perf/tune/table.json > collectives/default_rules.inc
// Fails, saying why, when the table cannot be read.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "perf/tune/tuning.h"

namespace {

isthmus::Result<std::string> rules_from(const char* path) {
  std::ifstream file(path);
  if (!file) return isthmus::invalid_argument(std::string("cannot open ") + path);
  std::stringstream text;
  text << file.rdbuf();
  ISTHMUS_ASSIGN(const isthmus::tune::Table table, isthmus::tune::parse_table(text.str()));
  ISTHMUS_ASSIGN(const isthmus::plan::RuleTable rules, isthmus::tune::make_rules(table));
  return isthmus::tune::to_include_file(rules);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: tune TABLE.json > collectives/default_rules.inc\n", stderr);
    return 2;
  }
  const auto rules = rules_from(argv[1]);
  if (!rules.ok()) {
    std::fprintf(stderr, "tune: %s\n", rules.status().text().c_str());
    return 1;
  }
  std::fputs(rules->c_str(), stdout);
  return 0;
}
