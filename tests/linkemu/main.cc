// SPDX-License-Identifier: Apache-2.0
// linkemu: links between sites with rate, delay, jitter and loss, in user space, for kernels without netem. Started by tests/sites, which
// puts each device into a site's bridge; or by hand, as root. Exit code: 0, 1 if the kernel refused something, 2 for a wrong command line.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "linkemu/loop.h"

namespace linkemu {
namespace {

using isthmus::errno_error;
using isthmus::Result;
using isthmus::Status;

constexpr int kExitRefused = 1, kExitUsage = 2;

constexpr const char* kFooter =
    "Commands, in --set, in the script and on stdin, one a line:\n"
    "  rate WHERE 200M|none      queue WHERE 1M|none      delay LINKS 10ms      jitter LINKS 1ms      loss LINKS 0.1%\n"
    "  at 3s: COMMAND            stats                    start                 quit\n"
    "LINKS: a->b, a<->b, a->*, *->b, * or several with commas. WHERE: LINKS, or a queue that links share: out:a, in:a, out:*,\n"
    "or the name of a --cut. 'stats' prints JSON; 'start' starts the script's clock.\n"
    "\n"
    "Example: linkemu --site a=tap0@4711 --site b=tap1@4712 --set 'rate out:* 200M' --set 'delay * 10ms'";

struct Words {
  std::vector<std::string> sites, cuts, settings;
  std::string script, report;
  uint64_t seed = 1;
  int ready = STDOUT_FILENO;
};

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return errno_error(fmt::format("cannot read {}", path), errno);
  return text.str();
}

struct Plan {
  Network network;
  std::vector<DeviceName> devices;
  std::vector<Command> settings, script;
};

Result<Plan> plan_of(const Words& words) {
  std::vector<DeviceName> devices;
  std::vector<std::string> sites;
  for (const std::string& text : words.sites) {
    ISTHMUS_ASSIGN(DeviceName device, parse_device(text));
    sites.push_back(device.site);
    devices.push_back(std::move(device));
  }
  ISTHMUS_ASSIGN(Network network, Network::make(std::move(sites), words.cuts, words.seed));
  Plan plan{.network = std::move(network), .devices = std::move(devices), .settings = {}, .script = {}};
  for (const std::string& text : words.settings) {
    ISTHMUS_ASSIGN(Command command, plan.network.parse(text));
    plan.settings.push_back(std::move(command));
  }
  if (!words.script.empty()) {
    ISTHMUS_ASSIGN(const std::string text, read_file(words.script));
    auto script = plan.network.parse_script(text);
    if (!script.ok()) return script.status().with_context(words.script);
    plan.script = std::move(*script);
  }
  return plan;
}

/// Frames are late by as much as this process waits for a CPU, so it asks to go first; where that is not allowed it goes on without.
void ask_for_urgency() {
  const sched_param first = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) setpriority(PRIO_PROCESS, 0, -20);
  prctl(PR_SET_TIMERSLACK, 1);
}

Result<isthmus::Fd> ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  isthmus::Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return errno_error("signalfd", errno);
  return fd;
}

Status run(Plan plan, const Words& words) {
  ISTHMUS_ASSIGN(const isthmus::Fd signals, ending_signals());
  std::vector<Device> devices;
  for (const DeviceName& name : plan.devices) {
    ISTHMUS_ASSIGN(Device device, Device::open(name));
    devices.push_back(std::move(device));
  }
  Loop loop(std::move(plan.network), std::move(devices), std::move(plan.script));
  for (const Command& command : plan.settings) loop.schedule(command, read_clock());
  if (::write(words.ready, "ready\n", 6) != 6) return errno_error("write to --ready", errno);
  if (words.ready != STDOUT_FILENO) ::close(words.ready);
  ask_for_urgency();
  const Status ended = loop.run(STDIN_FILENO, signals.get());
  if (words.report.empty()) {
    fmt::print("{}\n", loop.report());
    return ended;
  }
  std::ofstream file(words.report);
  file << loop.report() << '\n';
  file.close();
  return ended.ok() && !file ? errno_error(fmt::format("cannot write {}", words.report), errno) : ended;
}

int complain(const Status& status, int exit_code) {
  fmt::print(stderr, "linkemu: {}\n", status.text());
  return exit_code;
}

int main_of(int argc, char** argv) {
  Words words;
  bool with_parent = false, check = false;
  CLI::App app("Links between sites with rate, delay, jitter and loss.", "linkemu");
  app.footer(kFooter);
  app.add_option("--site", words.sites, "SITE=DEVICE[@PID]: makes a TAP device, in the network of process PID")->required();
  app.add_option("--cut", words.cuts, "NAME=LINKS: these links share a queue, and its rate");
  app.add_option("--set", words.settings, "a command that is carried out at the beginning");
  app.add_option("--script", words.script, "a file of commands, whose times count from 'start'");
  app.add_option("--seed", words.seed, "of loss and jitter (1)");
  app.add_option("--report", words.report, "the file for the counters at the end, instead of stdout");
  app.add_option("--ready", words.ready, "the descriptor that is told 'ready' once the devices are there (1)");
  app.add_flag("--with-parent", with_parent, "ends when its parent does");
  app.add_flag("--check", check, "says whether the words are right, and makes nothing");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto plan = plan_of(words);
  if (!plan.ok()) return complain(plan.status(), kExitUsage);
  if (check) return 0;
  const Status status = run(std::move(*plan), words);
  return status.ok() ? 0 : complain(status, kExitRefused);
}

}  // namespace
}  // namespace linkemu

int main(int argc, char** argv) { return linkemu::main_of(argc, argv); }
