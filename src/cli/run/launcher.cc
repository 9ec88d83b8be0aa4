// SPDX-License-Identifier: Apache-2.0
// The launcher (see launcher.h): one thread, one poll loop over the nodes' links and a descriptor of signals.
#include "cli/run/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/settings.h"
#include "cli/run/exchange.h"
#include "cli/run/frame.h"
#include "cli/run/hosts.h"
#include "cli/run/node.h"
#include "cli/run/output.h"

namespace isthmus::cli {
namespace {

constexpr TimeNs kTermToKillNs = 2 * kSecondNs;
constexpr int kExitUsage = 2;

/// Signals that are passed on to the ranks; those of the first row also end the job.
constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kPassedSignals = {SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(const std::string& text) { fmt::print(stderr, "isthmus run: {}\n", text); }

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
}

int exit_code_of(int wait_status) { return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status); }

struct Host {
  Placement placement;
  Link link;
  pid_t pid = -1;  ///< the node here, or the agent's command
  bool connected = true;
  int running = 0;  ///< ranks that have not been reported as ended
  [[nodiscard]] std::string name() const { return placement.host.empty() ? "this machine" : placement.host; }
};

class Launcher {
 public:
  explicit Launcher(const RunOptions& options) : options_(options), exchange_(0), output_(options.tag) {}
  int run();

 private:
  Status start();
  Status start_host(const Placement& placement, const std::string& command);
  [[nodiscard]] NodeOrder order_for(const Placement& placement, int size) const;
  void loop();
  void wait();
  void read_signals();
  void serve(Host& host);
  void handle(Host& host, const Frame& frame);
  void deliver(const std::vector<Exchange::Answer>& answers);
  void ended(Host& host, int rank, int wait_status);
  void lost(Host& host, const std::string& why);
  void failed(int exit_code, const std::string& text);
  void escalate(TimeNs now);
  void signal_all(int signal);
  [[nodiscard]] bool anybody_left() const;

  const RunOptions& options_;
  Exchange exchange_;
  OutputMerger output_;
  std::vector<Host> hosts_;
  std::vector<int> pids_;  ///< by rank, for messages
  Fd signals_;
  int exit_code_ = 0;
  int failures_ = 0;
  int ending_signal_ = 0;
  TimeNs term_at_ns_ = kNever, kill_at_ns_ = kNever;
};

/// Routes the signals of both rows into a descriptor.
Fd signal_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : kEndingSignals) sigaddset(&set, signal);
  for (int signal : kPassedSignals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// The other end of a link, run as a node or handed to the agent's command. Does not return.
[[noreturn]] void become_node(Fd ours, const std::string& command) {
  setpgid(0, 0);  // the terminal's signals come to us through the launcher
  if (command.empty()) {
    Fd copy(dup(ours.get()));
    fcntl(copy.get(), F_SETFD, FD_CLOEXEC);
    _exit(run_node(std::move(ours), std::move(copy)));
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  dup2(ours.get(), STDIN_FILENO);
  dup2(ours.get(), STDOUT_FILENO);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

/// A node needs milliseconds to end; an agent's command that does not end by itself is ended.
int wait_for_node(pid_t pid) {
  const TimeNs deadline = now_ns() + 5 * kSecondNs;
  int wait_status = 0;
  while (waitpid(pid, &wait_status, WNOHANG) == 0) {
    if (now_ns() > deadline) kill(-pid, SIGKILL);
    poll(nullptr, 0, 2);
  }
  return wait_status;
}

Status Launcher::start_host(const Placement& placement, const std::string& command) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return errno_error("socketpair", errno);
  Fd mine(sockets[0]);
  Fd theirs(sockets[1]);
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork", errno);
  if (pid == 0) {
    mine.reset();
    become_node(std::move(theirs), command);
  }
  Fd copy(dup(mine.get()));
  fcntl(copy.get(), F_SETFD, FD_CLOEXEC);
  hosts_.push_back(
      {.placement = placement, .link = Link(std::move(mine), std::move(copy), kNodeHello), .pid = pid, .running = placement.count});
  return {};
}

/// Variables that steer the library travel to other hosts, and those that the user named.
std::vector<std::string> passed_environment(const std::vector<std::string>& named) {
  std::vector<std::string> result;
  for (const std::string& one : named) {
    if (one.find('=') != std::string::npos) result.push_back(one);
  }
  for (const std::string& variable : whole_environment()) {
    const std::string_view text = variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool ours = name.starts_with("ISTHMUS_") || name.starts_with("NCCL_");
    if ((ours && !name.starts_with("ISTHMUS_RUN_")) || std::find(named.begin(), named.end(), name) != named.end())
      result.emplace_back(text);
  }
  return result;
}

NodeOrder Launcher::order_for(const Placement& placement, int size) const {
  const bool here = placement.host.empty();
  return {.size = size,
          .first = placement.first,
          .count = placement.count,
          .argv = options_.command,
          .environment = passed_environment(options_.environment),
          .directory = options_.directory.empty() ? std::filesystem::current_path().string() : options_.directory,
          .capture = !here || options_.tag,
          .inherit_input = here && isatty(STDIN_FILENO) == 0,
          .bind = options_.bind};
}

Status Launcher::start() {
  ISTHMUS_ASSIGN(const std::vector<Placement> placements, place_ranks(options_.hosts, options_.ranks));
  std::vector<std::string> commands;
  const std::string self =
      options_.remote_isthmus.empty() ? std::filesystem::read_symlink("/proc/self/exe").string() : options_.remote_isthmus;
  int size = 0;
  for (const Placement& placement : placements) {
    size += placement.count;
    if (placement.host.empty()) {
      commands.emplace_back();
      continue;
    }
    ISTHMUS_ASSIGN(const std::string agent, agent_command(options_.agent, placement.host));
    commands.push_back(fmt::format("{} {} run-node", agent, shell_quoted(self)));
  }
  exchange_ = Exchange(size);
  pids_.assign(static_cast<size_t>(size), 0);
  for (size_t at = 0; at < placements.size(); ++at) {
    ISTHMUS_TRY(start_host(placements[at], commands[at]));
    hosts_.back().link.send({.kind = FrameKind::start, .payload = order_for(placements[at], size).to_json()});
  }
  return {};
}

int Launcher::run() {
  signals_ = signal_descriptor();
  if (const Status started = start(); !started.ok()) {
    say(started.text());
    exit_code_ = started.code() == Code::invalid_argument ? kExitUsage : 1;
  } else {
    loop();
  }
  for (Host& host : hosts_) host.link = Link(Fd(), Fd());  // a node whose launcher is gone ends everything
  for (const Host& host : hosts_) {
    if (host.pid > 0) wait_for_node(host.pid);
  }
  output_.flush();
  if (failures_ > 1 && ending_signal_ == 0) say(fmt::format("{} ranks failed; the exit code is that of the first", failures_));
  if (exit_code_ == 0 && ending_signal_ != 0) exit_code_ = 128 + ending_signal_;
  return exit_code_;
}

bool Launcher::anybody_left() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.connected && host.running > 0; });
}

void Launcher::loop() {
  while (anybody_left()) {
    wait();
    read_signals();
    for (Host& host : hosts_) {
      if (host.connected) serve(host);
    }
    escalate(now_ns());
  }
}

void Launcher::wait() {
  std::vector<pollfd> polled = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  for (const Host& host : hosts_) {
    if (!host.connected) continue;
    polled.push_back({.fd = host.link.in(), .events = POLLIN, .revents = 0});
    if (host.link.wants_to_write()) polled.push_back({.fd = host.link.out(), .events = POLLOUT, .revents = 0});
  }
  const TimeNs next = std::min(term_at_ns_, kill_at_ns_);
  const TimeNs left_ms = next == kNever ? -1 : std::max<TimeNs>(0, (next - now_ns()) / kMillisecondNs + 1);
  poll(polled.data(), polled.size(), static_cast<int>(left_ms));
}

// --- what nodes say ----------------------------------------------------------------------------------------------------------------------

void Launcher::serve(Host& host) {
  const bool writable = host.link.flush();
  const bool open = host.link.fill() && writable;  // reads in any case: last words may explain why nobody listens
  while (true) {
    Result<std::optional<Frame>> frame = host.link.next();
    if (!frame.ok()) return lost(host, frame.status().text());
    if (!frame->has_value()) break;
    handle(host, **frame);
  }
  if (!open && host.running > 0) lost(host, "its connection closed");
  if (!open) host.connected = false;
}

void Launcher::handle(Host& host, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::request:
      deliver(exchange_.submit(frame.rank, frame.payload));
      break;
    case FrameKind::left:
      deliver(exchange_.leave(frame.rank));
      break;
    case FrameKind::output:
      output_.write(stdout, frame.rank, frame.payload);
      break;
    case FrameKind::errors:
      output_.write(stderr, frame.rank, frame.payload);
      break;
    case FrameKind::started:
      pids_[static_cast<size_t>(frame.rank)] = std::atoi(frame.payload.c_str());
      break;
    case FrameKind::exited:
      ended(host, frame.rank, std::atoi(frame.payload.c_str()));
      break;
    case FrameKind::failed:
      host.running -= frame.rank < 0 ? host.running : 1;
      deliver(frame.rank < 0 ? std::vector<Exchange::Answer>() : exchange_.leave(frame.rank));
      failed(127, frame.rank < 0 ? host.name() + ": " + frame.payload
                                 : fmt::format("rank {} on {}: {}", frame.rank, host.name(), frame.payload));
      break;
    default:
      lost(host, "it sent what only a launcher sends");
  }
}

void Launcher::deliver(const std::vector<Exchange::Answer>& answers) {
  for (const Exchange::Answer& answer : answers) {
    for (Host& host : hosts_) {
      const int local = answer.rank - host.placement.first;
      if (local < 0 || local >= host.placement.count || !host.connected) continue;
      host.link.send({.kind = FrameKind::answer, .rank = answer.rank, .payload = answer.bytes});
    }
  }
}

void Launcher::ended(Host& host, int rank, int wait_status) {
  --host.running;
  if (wait_status == 0) return;
  failed(exit_code_of(wait_status),
         fmt::format("rank {} (pid {} on {}) {}", rank, pids_[static_cast<size_t>(rank)], host.name(), how_it_ended(wait_status)));
}

void Launcher::lost(Host& host, const std::string& why) {
  std::string text = fmt::format("lost {} with ranks {} to {}: {}", host.name(), host.placement.first,
                                 host.placement.first + host.placement.count - 1, why);
  if (const std::string_view greeting = host.link.reader().greeting(); !greeting.empty()) {
    text += fmt::format("; it said: {}", greeting.substr(0, 500));
  }
  host.link = Link(Fd(), Fd());
  const int wait_status = wait_for_node(std::exchange(host.pid, -1));
  if (!host.placement.host.empty()) text += "; the agent's command " + how_it_ended(wait_status);
  for (int at = 0; at < host.placement.count; ++at) deliver(exchange_.leave(host.placement.first + at));
  host.connected = false;
  host.running = 0;
  failed(1, text);
}

/// The first failure gives the exit code and starts the clock for the others.
void Launcher::failed(int exit_code, const std::string& text) {
  if (++failures_ > 1) return;
  exit_code_ = exit_code;
  if (ending_signal_ != 0) return;  // as was asked for
  say(text);
  if (term_at_ns_ == kNever && kill_at_ns_ == kNever) term_at_ns_ = now_ns() + options_.grace_ns;
}

// --- ending
// ----------------------------------------------------------------------------------------------------------------------------------

void Launcher::read_signals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    const bool ending = std::find(kEndingSignals.begin(), kEndingSignals.end(), signal) != kEndingSignals.end();
    if (ending && ending_signal_ != 0) {
      kill_at_ns_ = now_ns();  // asked twice
      continue;
    }
    if (ending) {
      ending_signal_ = signal;
      kill_at_ns_ = now_ns() + options_.grace_ns;
      term_at_ns_ = kNever;
    }
    signal_all(signal);
    if (signal == SIGTSTP) raise(SIGSTOP);  // SIGCONT, when it comes, is passed on as well
  }
}

void Launcher::escalate(TimeNs now) {
  if (!anybody_left()) return;
  if (now >= term_at_ns_) {
    say("ending the ranks that are still running");
    signal_all(SIGTERM);
    term_at_ns_ = kNever;
    kill_at_ns_ = now + kTermToKillNs;
  }
  if (now >= kill_at_ns_) {
    signal_all(SIGKILL);
    kill_at_ns_ = now + kSecondNs;
  }
}

void Launcher::signal_all(int signal) {
  for (Host& host : hosts_) {
    if (host.connected) host.link.send({.kind = FrameKind::signal, .payload = std::to_string(signal)});
  }
}

}  // namespace

int run_launcher(const RunOptions& options) { return Launcher(options).run(); }

}  // namespace isthmus::cli
