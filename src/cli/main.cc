// SPDX-License-Identifier: Apache-2.0
// The `isthmus` tool. Exit codes: 0 done, 1 failed, 2 the command line is wrong; `isthmus run` passes its program's on.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <sstream>
#include <system_error>

#include "base/text.h"
#include "cli/commands.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct CommandLine {
  std::vector<std::string> own;      ///< without the tool's name
  std::vector<std::string> program;  ///< after "--"
};

CommandLine split(int argc, char** argv) {
  CommandLine line;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto mark = std::find(words.begin(), words.end(), "--");
  line.own.assign(words.begin(), mark);
  if (mark != words.end()) line.program.assign(mark + 1, words.end());
  return line;
}

/// `help [COMMAND...]` and `version` mean what the options mean.
void translate(std::vector<std::string>& words) {
  if (words.empty()) return;
  if (words[0] == "version") words[0] = "--version";
  if (words[0] != "help") return;
  words.erase(words.begin());
  words.emplace_back("--help");
}

std::vector<std::string_view> commands_of(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); }))
    names.push_back(one->get_name());
  if (app.get_parent() == nullptr) names.insert(names.end(), {"help", "version"});
  return names;
}

/// "" if the words begin with the command that `app` needs, or ask for help; else what is wrong, with the commands that there are.
std::string wrong_command(const CLI::App& app, std::span<const std::string> words, const std::string& parents) {
  const auto chosen = app.get_subcommands([&](const CLI::App* each) { return !words.empty() && each->get_name() == words[0]; });
  if (!chosen.empty()) {
    const bool needs_another = chosen[0]->get_require_subcommand_min() > 0;
    return needs_another ? wrong_command(*chosen[0], words.subspan(1), parents + " " + words[0]) : "";
  }
  const std::vector<std::string_view> known = commands_of(app);
  const std::string list = fmt::format("known are: {}; '{} --help' says more", isthmus::join(known, ", "), parents);
  if (words.empty()) return fmt::format("'{}' needs a command; {}", parents, list);
  if (words[0].starts_with("-")) {
    const bool is_option = app.get_option_no_throw(words[0]) != nullptr;
    return is_option ? "" : fmt::format("there is no option '{}' before the command; {}", words[0], list);
  }
  const std::string_view meant = isthmus::nearest(words[0], known);
  const std::string guess = meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant);
  return fmt::format("there is no command '{} {}'; {}{}", parents, words[0], guess, list);
}

int parse(CLI::App& app, std::vector<std::string> words) {
  translate(words);
  if (const std::string wrong = wrong_command(app, words, app.get_name()); !wrong.empty()) {
    fmt::print(stderr, "isthmus: {}\n", wrong);
    return kExitUsage;
  }
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& asked) {  // for help or the version
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    fmt::print("{}", text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "isthmus: {} (see --help)\n", error.what());
    return kExitUsage;
  }
  return 0;
}

/// Output that did not get to where it should (a full disk) is a failure, whatever else went well.
int conclude(int exit_code, int write_error) {
  if (std::fflush(stdout) != 0 && write_error == 0) write_error = errno;
  if (write_error == 0 && std::ferror(stdout) == 0) return exit_code;
  fmt::print(stderr, "isthmus: cannot write to standard output: {}\n", write_error == 0 ? "not all arrived" : std::strerror(write_error));
  return exit_code == 0 ? kExitFailed : exit_code;
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
  add_explain(app, outcome);
  add_topo(app, outcome);
  add_probe(app, outcome);
  add_aggregate(app, outcome);
  add_federated(app, outcome);
  app.footer("'isthmus COMMAND --help' or 'isthmus help COMMAND' says more about a command; 'isthmus version' says which this is.");
  try {
    const int parsed = parse(app, line.own);
    return conclude(parsed == 0 ? outcome.exit_code : parsed, 0);
  } catch (const std::system_error& error) {  // a print's
    return conclude(kExitFailed, error.code().value());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "isthmus: not enough memory\n");
    return conclude(kExitFailed, 0);
  }
}
