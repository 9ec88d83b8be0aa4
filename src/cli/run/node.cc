// SPDX-License-Identifier: Apache-2.0
// One host's ranks (see node.h). One thread and one poll loop; SIGCHLD arrives through a descriptor.
#include "cli/run/node.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/settings.h"
#include "base/text.h"
#include "cli/json_text.h"
#include "cli/run/child.h"
#include "cli/run/cpus.h"
#include "cli/run/exchange.h"
#include "cli/run/frame.h"

namespace isthmus::cli {
namespace {

using Json = nlohmann::json;

struct Rank {
  int number = 0;
  Child child;
  bool running = false;
  std::string request;  ///< of the exchange, as far as it has arrived
};

class Node {
 public:
  Node(Fd in, Fd out) : link_(std::move(in), std::move(out)) {}
  int run();

 private:
  bool serve_launcher();
  bool obey(const Frame& frame);
  void start(const NodeOrder& order);
  void forward_signal(int signal);
  void serve_rank(Rank& rank);
  void read_exchange(Rank& rank);
  void read_output(Rank& rank, Fd& source, FrameKind kind);
  void reap();
  void finish(Rank& rank, int wait_status);
  void kill_leftovers();
  [[nodiscard]] bool done() const;
  void wait();

  Link link_;
  Fd signals_;
  std::vector<Rank> ranks_;
  bool started_ = false;
};

/// Everything that ends ranks or tells about children comes through descriptors, not through handlers.
Fd block_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  return Fd(signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Node::run() {
  signals_ = block_signals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a rank leaves behind becomes ours, and so can be ended
  bool launcher_alive = link_.send_hello();
  while (launcher_alive && !(started_ && done() && !link_.wants_to_write())) {
    wait();
    launcher_alive = link_.flush() && serve_launcher();
    reap();
    for (Rank& rank : ranks_) serve_rank(rank);
  }
  kill_leftovers();
  return launcher_alive ? 0 : 1;
}

bool Node::done() const {
  for (const Rank& rank : ranks_) {
    if (rank.running) return false;
  }
  return true;
}

void Node::wait() {
  std::vector<pollfd> polled = {{.fd = link_.in(), .events = POLLIN, .revents = 0}, {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  if (link_.wants_to_write()) polled.push_back({.fd = link_.out(), .events = POLLOUT, .revents = 0});
  for (const Rank& rank : ranks_) {
    if (link_.congested()) break;
    for (const Fd* fd : {&rank.child.exchange, &rank.child.output, &rank.child.errors}) {
      if (fd->valid()) polled.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
    }
  }
  poll(polled.data(), polled.size(), -1);
  std::array<signalfd_siginfo, 16> drained;
  while (read(signals_.get(), drained.data(), sizeof drained) > 0) {
  }
}

// --- the launcher's wishes ---------------------------------------------------------------------------------------------------------------

bool Node::serve_launcher() {
  if (!link_.fill()) return false;
  while (true) {
    Result<std::optional<Frame>> frame = link_.next();
    if (!frame.ok()) return false;
    if (!frame->has_value()) return true;
    if (!obey(**frame)) return false;
  }
}

bool Node::obey(const Frame& frame) {
  if (frame.kind == FrameKind::start) {
    started_ = true;
    const Result<NodeOrder> order = NodeOrder::from_json(frame.payload);
    if (order.ok()) {
      start(*order);
      return true;
    }
    return link_.send({.kind = FrameKind::failed, .rank = -1, .payload = order.status().text()});
  }
  if (frame.kind == FrameKind::signal) {
    const Result<uint64_t> signal = parse_unsigned(frame.payload, SIGRTMAX);
    if (signal.ok()) forward_signal(static_cast<int>(*signal));
    return signal.ok();
  }
  if (frame.kind != FrameKind::answer) return false;
  for (Rank& rank : ranks_) {
    // A rank reads its answer before it asks again, so the socket has room; one that is gone needs none.
    if (rank.number == frame.rank && rank.child.exchange.valid()) {
      static_cast<void>(!write(rank.child.exchange.get(), frame.payload.data(), frame.payload.size()));
    }
  }
  return true;
}

void Node::start(const NodeOrder& order) {
  const std::vector<std::string> inherited = whole_environment();
  const std::vector<CpuSet> cpus = order.bind ? share_cpus(read_cpu_places(read_cpu_set()), order.count) : std::vector<CpuSet>();
  for (int at = 0; at < order.count; ++at) {
    const int number = order.first + at;
    ChildOrder child = {.argv = order.argv,
                        .environment = inherited,
                        .directory = order.directory,
                        .inherit_input = order.inherit_input && number == 0,
                        .capture = order.capture};
    if (!cpus.empty()) child.cpus = cpus[static_cast<size_t>(at)];
    for (const std::string& variable : order.environment) set_variable(child.environment, variable);
    set_variable(child.environment, fmt::format("ISTHMUS_RUN_RANK={}", number));
    set_variable(child.environment, fmt::format("ISTHMUS_RUN_SIZE={}", order.size));
    set_variable(child.environment, fmt::format("ISTHMUS_RUN_LOCAL_RANK={}", at));
    set_variable(child.environment, fmt::format("ISTHMUS_RUN_LOCAL_SIZE={}", order.count));
    Result<Child> started = start_child(child);
    if (!started.ok()) {
      link_.send({.kind = FrameKind::failed, .rank = number, .payload = started.status().text()});
      continue;
    }
    ranks_.push_back({.number = number, .child = std::move(started).value(), .running = true});
    link_.send({.kind = FrameKind::started, .rank = number, .payload = std::to_string(ranks_.back().child.pid)});
  }
}

void Node::forward_signal(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.running) kill(-rank.child.pid, signal);
  }
}

// --- the ranks' needs
// ----------------------------------------------------------------------------------------------------------------------

void Node::serve_rank(Rank& rank) {
  if (link_.congested()) return;
  read_exchange(rank);
  read_output(rank, rank.child.output, FrameKind::output);
  read_output(rank, rank.child.errors, FrameKind::errors);
}

/// 1: there are bytes or the end; 0: nothing now.
bool is_readable(const Fd& fd) {
  pollfd one = {.fd = fd.get(), .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) > 0;
}

void Node::read_exchange(Rank& rank) {
  if (!rank.child.exchange.valid() || !is_readable(rank.child.exchange)) return;
  std::array<char, 65536> chunk;
  const ssize_t got = read(rank.child.exchange.get(), chunk.data(), chunk.size());
  if (got > 0) {
    rank.request.append(chunk.data(), static_cast<size_t>(got));
    if (std::optional<std::string> block = take_request(rank.request)) {
      link_.send({.kind = FrameKind::request, .rank = rank.number, .payload = std::move(*block)});
    }
  } else if (got == 0 || errno != EINTR) {
    rank.child.exchange.reset();
    link_.send({.kind = FrameKind::left, .rank = rank.number, .payload = ""});
  }
}

void Node::read_output(Rank& rank, Fd& source, FrameKind kind) {
  if (!source.valid() || !is_readable(source)) return;
  std::array<char, 65536> chunk;
  const ssize_t got = read(source.get(), chunk.data(), chunk.size());
  if (got > 0) {
    link_.send({.kind = kind, .rank = rank.number, .payload = std::string(chunk.data(), static_cast<size_t>(got))});
  } else if (got == 0 || errno != EINTR) {
    source.reset();
  }
}

void Node::reap() {
  int wait_status = 0;
  for (pid_t pid = waitpid(-1, &wait_status, WNOHANG); pid > 0; pid = waitpid(-1, &wait_status, WNOHANG)) {
    for (Rank& rank : ranks_) {
      if (rank.running && rank.child.pid == pid) finish(rank, wait_status);
    }
  }
}

void Node::finish(Rank& rank, int wait_status) {
  rank.running = false;
  kill(-rank.child.pid, SIGKILL);  // whatever it started and did not wait for
  for (Fd* source : {&rank.child.output, &rank.child.errors}) {
    while (source->valid() && is_readable(*source)) {
      read_output(rank, *source, source == &rank.child.output ? FrameKind::output : FrameKind::errors);
    }
    source->reset();
  }
  if (rank.child.exchange.valid()) {
    rank.child.exchange.reset();
    link_.send({.kind = FrameKind::left, .rank = rank.number, .payload = ""});
  }
  link_.send({.kind = FrameKind::exited, .rank = rank.number, .payload = std::to_string(wait_status)});
}

/// Ends what is still there: ranks if the launcher is gone, and processes that ranks left behind in groups of their own.
void Node::kill_leftovers() {
  forward_signal(SIGKILL);
  for (int round = 0; round < 1000; ++round) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
    for (pid_t pid = 0; children >> pid;) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
    poll(nullptr, 0, 2);
  }
}

}  // namespace

std::string NodeOrder::to_json() const {
  const Json json = {{"size", size},
                     {"first", first},
                     {"count", count},
                     {"argv", argv},
                     {"environment", environment},
                     {"directory", directory},
                     {"capture", capture},
                     {"inherit_input", inherit_input},
                     {"bind", bind}};
  return json_text(json);
}

Result<NodeOrder> NodeOrder::from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto is_bad = [&](const char* key, auto right) { return !json.contains(key) || !right(json[key]); };
  const auto number = [](const Json& value) { return value.is_number_integer(); };
  const auto texts = [](const Json& value) {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
  };
  const auto flag = [](const Json& value) { return value.is_boolean(); };
  if (!json.is_object() || is_bad("size", number) || is_bad("first", number) || is_bad("count", number) || is_bad("argv", texts) ||
      is_bad("environment", texts) || is_bad("capture", flag) || is_bad("inherit_input", flag) || is_bad("bind", flag) ||
      is_bad("directory", [](const Json& value) { return value.is_string(); }) || json["argv"].empty()) {
    return system_error("the order from isthmus run is not understood; do both hosts have the same version?");
  }
  return NodeOrder{.size = json["size"],
                   .first = json["first"],
                   .count = json["count"],
                   .argv = json["argv"],
                   .environment = json["environment"],
                   .directory = json["directory"],
                   .capture = json["capture"],
                   .inherit_input = json["inherit_input"],
                   .bind = json["bind"]};
}

int run_node(Fd in, Fd out) { return Node(std::move(in), std::move(out)).run(); }

}  // namespace isthmus::cli
