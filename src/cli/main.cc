// SPDX-License-Identifier: Apache-2.0
// The `isthmus` tool. Exit codes: 0 done, 1 failed, 2 the command line is wrong; `isthmus run` passes its program's on.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"

namespace {

constexpr int kExitUsage = 2;

struct CommandLine {
  std::vector<std::string> own;      ///< without the tool's name, last first, as the parser wants them
  std::vector<std::string> program;  ///< after "--"
};

CommandLine split(int argc, char** argv) {
  CommandLine line;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto mark = std::find(words.begin(), words.end(), "--");
  line.own.assign(words.begin(), mark);
  std::reverse(line.own.begin(), line.own.end());
  if (mark != words.end()) line.program.assign(mark + 1, words.end());
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace isthmus::cli;
  CommandLine line = split(argc, argv);
  Outcome outcome;
  CLI::App app("Starts programs on one host or several, and shows what the Isthmus library knows and decides.", "isthmus");
  app.require_subcommand(1);
  app.set_version_flag("--version", "isthmus " ISTHMUS_TOOL_VERSION);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_run(app, line.program, outcome);
  add_run_node(app, outcome);
  add_settings(app, outcome);
  add_algorithms(app, outcome);
  add_plan(app, outcome);
  app.footer("'isthmus COMMAND --help' says more about a command.");
  try {
    app.parse(std::move(line.own));
  } catch (const CLI::CallForHelp& call) {
    return app.exit(call);
  } catch (const CLI::CallForAllHelp& call) {
    return app.exit(call);
  } catch (const CLI::CallForVersion& call) {
    return app.exit(call);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "isthmus: {} (see --help)\n", error.what());
    return kExitUsage;
  }
  return outcome.exit_code;
}
