// SPDX-License-Identifier: Apache-2.0
// `isthmus run` and the `isthmus run-node` behind it: the command line of the launcher (run/launcher.h).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/run/hosts.h"
#include "cli/run/launcher.h"
#include "cli/run/node.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kRunHelp =
    "Starts N copies (ranks) of a program, on this machine or on several hosts, and waits for them.\n"
    "\n"
    "Each rank finds ISTHMUS_RUN_RANK, ISTHMUS_RUN_SIZE, ISTHMUS_RUN_LOCAL_RANK and ISTHMUS_RUN_LOCAL_SIZE in its environment, and a\n"
    "socket (ISTHMUS_RUN_FD) by which ranks exchange small blocks of data, such as a communicator's id. The *_perf programs use it.\n"
    "Where every rank of a program calls ncclGetUniqueId by itself, NCCL_COMM_ID (address and port of rank 0) gives all the same id.\n"
    "\n"
    "On other hosts ranks are started through an agent, a shell command that runs the words after it there: ssh, or what enters a\n"
    "container. Hosts need not reach this machine by network, only the agent's standard input and output.";

constexpr std::string_view kRunFooter =
    "When a rank fails, the others get the grace time to end by themselves, then SIGTERM, then SIGKILL. SIGINT, SIGTERM, SIGHUP and\n"
    "SIGQUIT end the job likewise; a second one ends it at once; SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on. The exit code is\n"
    "that of the first rank that failed, 128 + the signal's number if it was killed, 127 if the program could not be started.\n"
    "\n"
    "Examples:\n"
    "  isthmus run -n 4 -- all_reduce_perf -b 8 -e 16M -f 4\n"
    "  NCCL_COMM_ID=127.0.0.1:4567 isthmus run -n 2 -- ./job     # ncclGetUniqueId in every rank\n"
    "  isthmus run -n 4 --hosts a,b -- all_reduce_perf -b 1M\n"
    "  isthmus run --hosts a:2,b:2 --agent 'nsenter -t $(cat /run/{host}.pid) -m -u -i -n' -- all_reduce_perf";

struct RunWords {
  RunOptions options;
  std::string bind = "cpus";
  double grace_s = 10;
};

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& command, Outcome& outcome) {
  CLI::App* run = app.add_subcommand("run", std::string(kRunHelp));
  const auto words = std::make_shared<RunWords>();
  RunOptions& options = words->options;
  run->add_option("-n,--ranks", options.ranks, "Ranks to start")->check(CLI::Range(1, kMaxRanks));
  run->add_option("--hosts", options.hosts, "Hosts, in the order of ranks: a,b divides the ranks evenly, a:2,b:4 says how many each");
  run->add_option("--agent", options.agent, "How to reach {host}")->capture_default_str();
  run->add_option("--env", options.environment, "NAME or NAME=VALUE to pass on; other hosts get only ISTHMUS_* and NCCL_* by themselves")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false);
  run->add_option("--directory", options.directory, "Where ranks start (default: here)");
  run->add_option("--remote-isthmus", options.remote_isthmus, "Path of this tool on other hosts (default: the same as here)");
  run->add_option(
         "--bind", words->bind,
         "cpus: each rank runs on CPUs of its own, an equal part of the host's, where there is at least one for each; none: anywhere")
      ->check(CLI::IsMember({"cpus", "none"}))
      ->capture_default_str();
  run->add_option("--grace", words->grace_s, "Seconds that ranks get to end by themselves")
      ->check(finite_in(0, 1e6))
      ->capture_default_str();
  run->add_flag("--tag", options.tag, "Put [rank] before each line of output");
  run->footer(std::string(kRunFooter));
  run->prefix_command();
  run->callback([run, words, &command, &outcome] {
    RunOptions& chosen = words->options;
    chosen.command = run->remaining();
    if (!chosen.command.empty() && !command.empty()) chosen.command.emplace_back("--");
    chosen.command.insert(chosen.command.end(), command.begin(), command.end());
    if (chosen.command.empty()) throw CLI::ValidationError("run", "there is no program to run; give it after --");
    if (chosen.command.front().starts_with("-")) throw CLI::ValidationError("run", "unknown option " + chosen.command.front());
    chosen.bind = words->bind == "cpus";
    chosen.grace_ns = std::llround(words->grace_s * 1e9);
    outcome.exit_code = run_launcher(chosen);
  });
}

void add_run_node(CLI::App& app, Outcome& outcome) {
  CLI::App* node = app.add_subcommand("run-node", "What isthmus run starts on other hosts");
  node->group("");  // not listed
  node->callback([&outcome] {
    Fd in(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    Fd out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(nothing.get(), STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    outcome.exit_code = run_node(std::move(in), std::move(out));
  });
}

}  // namespace isthmus::cli
