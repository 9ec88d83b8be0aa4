// SPDX-License-Identifier: Apache-2.0
// Starting one rank (see child.h).
#include "cli/run/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>

namespace isthmus::cli {
namespace {

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe", errno);
  return Pipe{.read = Fd(ends[0]), .write = Fd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Everything the child needs, prepared before the fork.
struct Launch {
  std::vector<char*> argv, environment;
  const char* directory;
  int input, output, errors;  ///< -1: as inherited
  int exchange;
  int report;  ///< where errno goes if the program cannot be run
  pid_t parent;
  std::span<const uint64_t> cpus;
};

[[noreturn]] void give_up(const Launch& launch) {
  const int error = errno;
  static_cast<void>(!write(launch.report, &error, sizeof error));
  _exit(127);
}

/// In the child, between fork and exec.
[[noreturn]] void become(const Launch& launch) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);  // the node died before the order reached the kernel
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (launch.input >= 0) dup2(launch.input, STDIN_FILENO);
  if (launch.output >= 0) dup2(launch.output, STDOUT_FILENO);
  if (launch.errors >= 0) dup2(launch.errors, STDERR_FILENO);
  fcntl(launch.exchange, F_SETFD, 0);  // this one passes through exec
  // A system that forbids it places the rank itself.
  if (!launch.cpus.empty()) (void)sched_setaffinity(0, launch.cpus.size_bytes(), reinterpret_cast<const cpu_set_t*>(launch.cpus.data()));
  if (chdir(launch.directory) != 0) give_up(launch);
  execvpe(launch.argv[0], launch.argv.data(), launch.environment.data());
  give_up(launch);
}

/// errno of a failed exec, 0 once the program runs.
int wait_for_exec(const Fd& report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

}  // namespace

void set_variable(std::vector<std::string>& environment, const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('=') + 1);
  for (std::string& one : environment) {
    if (one.starts_with(name)) {
      one = variable;
      return;
    }
  }
  environment.push_back(variable);
}

Result<Child> start_child(const ChildOrder& order) {
  Child child;
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return errno_error("socketpair", errno);
  child.exchange.reset(sockets[0]);
  const Fd theirs(sockets[1]);
  ISTHMUS_ASSIGN(Pipe report, make_pipe());
  Pipe output;
  Pipe errors;
  if (order.capture) {
    ISTHMUS_ASSIGN(output, make_pipe());
    ISTHMUS_ASSIGN(errors, make_pipe());
  }
  const Fd nothing(order.inherit_input ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<std::string> environment = order.environment;
  set_variable(environment, fmt::format("ISTHMUS_RUN_FD={}", theirs.get()));
  const Launch launch = {.argv = pointers(order.argv),
                         .environment = pointers(environment),
                         .directory = order.directory.c_str(),
                         .input = nothing.get(),
                         .output = output.write.get(),
                         .errors = errors.write.get(),
                         .exchange = theirs.get(),
                         .report = report.write.get(),
                         .parent = getpid(),
                         .cpus = order.cpus};
  child.pid = fork();
  if (child.pid < 0) return errno_error("fork", errno);
  if (child.pid == 0) become(launch);
  setpgid(child.pid, child.pid);  // also here, so that it is done whoever comes first
  report.write.reset();
  if (const int error = wait_for_exec(report.read); error != 0) {
    return errno_error(fmt::format("cannot run '{}' in {}", order.argv.front(), order.directory), error);
  }
  child.output = std::move(output.read);
  child.errors = std::move(errors.read);
  return child;
}

}  // namespace isthmus::cli
