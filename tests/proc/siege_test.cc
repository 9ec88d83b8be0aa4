// SPDX-License-Identifier: Apache-2.0
// Set-up under attack: while ranks join and make their first calls, strangers scan every listening socket of theirs, hold connections, talk
// HTTP and rubbish, replay a real rank's greeting, and one process tries to join with a wrong secret. The job comes up with right results
// and nothing is printed. And a rank that never comes is named at the set-up deadline.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "base/fd.h"
#include "proc/team.h"

namespace isthmus::proc_test {
namespace {

constexpr int32_t kRanks = 3;

struct Target {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

/// Numbers of the sockets that a process has open.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  for (const std::string& name : names_in(folder.c_str())) {
    std::array<char, 64> link{};
    const ssize_t got = readlink((folder + name).c_str(), link.data(), link.size() - 1);
    const std::string text(link.data(), got > 0 ? static_cast<size_t>(got) : 0);
    if (text.starts_with("socket:[")) inodes.insert(text.substr(8, text.size() - 9));
  }
  return inodes;
}

/// Where it listens over IPv4.
void add_tcp_targets(const std::set<std::string>& inodes, std::vector<Target>& targets) {
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retries, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retries >> uid >> timeout >> inode;
    if (state != "0A" || !inodes.contains(inode)) continue;
    Target target;
    auto* address = reinterpret_cast<sockaddr_in*>(&target.address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(local.substr(0, 8), nullptr, 16));
    address->sin_port = htons(static_cast<uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
    target.bytes = sizeof(sockaddr_in);
    targets.push_back(target);
  }
}

/// Where it listens on abstract unix sockets.
void add_unix_targets(const std::set<std::string>& inodes, std::vector<Target>& targets) {
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
    if (flags != "00010000" || path.empty() || path[0] != '@' || !inodes.contains(inode)) continue;
    Target target;
    auto* address = reinterpret_cast<sockaddr_un*>(&target.address);
    address->sun_family = AF_UNIX;
    std::copy(path.begin() + 1, path.end(), address->sun_path + 1);
    target.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    targets.push_back(target);
  }
}

std::vector<Target> targets_of(const std::vector<pid_t>& pids) {
  std::vector<Target> targets;
  for (const pid_t pid : pids) {
    const auto inodes = sockets_of(pid);
    add_tcp_targets(inodes, targets);
    add_unix_targets(inodes, targets);
  }
  return targets;
}

Fd knock(const Target& target, const std::string& words) {
  Fd fd(socket(target.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<const sockaddr*>(&target.address), target.bytes) != 0) {
    if (errno != EINPROGRESS) return fd;
  }
  if (!words.empty()) [[maybe_unused]]
    const ssize_t sent = send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
  return fd;
}

/// Between the test and its ranks.
struct Shared {
  std::atomic<int> done{0};
};

/// Until all ranks are done, at most some seconds. `greeting` is what a rank says first.
int besiege(const std::vector<pid_t>& pids, const Shared& shared, const std::string& greeting) {
  std::mt19937 dice(5);
  std::vector<Fd> held;
  int knocks = 0;
  for (const int64_t until = moment_us() + 10'000'000; shared.done.load() < kRanks && moment_us() < until; usleep(3000)) {
    for (const Target& target : targets_of(pids)) {
      std::string rubbish(dice() % 400, '\0');
      for (char& each : rubbish) each = static_cast<char>(dice());
      for (const std::string& words :
           {std::string(), std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), rubbish, greeting, greeting + rubbish}) {
        Fd fd = knock(target, words);
        if (dice() % 4 == 0 && held.size() < 300) held.push_back(std::move(fd));
        ++knocks;
      }
    }
  }
  return knocks;
}

class Siege : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "isthmus-siege-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* name : {"right", "wrong"}) {
      std::ofstream(folder_ / name) << "the " << name << " secret, long enough to be one";
      chmod((folder_ / name).c_str(), 0600);
    }
    void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    shared_ = new (page) Shared;
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("ISTHMUS_SETUP_TIMEOUT", "15s", 1);
    setenv("ISTHMUS_SECRET_FILE", (folder_ / "right").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The intruder: 0 if it was kept out.
  static int intrude(const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, kRanks, id, 1) == ncclSuccess ? 1 : 0;
  }

  void run_under_siege(Team team, const std::string& greeting);

  std::filesystem::path folder_;
  Shared* shared_ = nullptr;
};

void Siege::run_under_siege(Team team, const std::string& greeting) {
  int knocks = 0;
  const auto prepare = team.prepare;
  team.ranks = kRanks;
  team.limit_ms = 25'000;
  team.prepare = [&, prepare](int32_t rank) {
    if (rank == 0) setenv("ISTHMUS_HOSTID", "another", 1);  // so that all kinds of doors are used
    setenv("ISTHMUS_DEBUG", "WARN", 1);
    setenv("ISTHMUS_DEBUG_FILE", (folder_ / ("log." + std::to_string(rank))).c_str(), 1);
    if (prepare) prepare(rank);
  };
  team.body = [&](int32_t rank, ncclComm_t comm, Ending& ending) {
    for (int i = 0; i < 20; ++i, usleep(10'000)) {
      if (!sum_is_right(rank, kRanks, comm, i % 2 == 0 ? 100 : 300'000, ending)) break;
    }
    shared_->done.fetch_add(1);
  };
  team.meanwhile = [&](const std::vector<pid_t>& pids) { knocks = besiege(pids, *shared_, greeting); };
  for (const Ending& ending : run_team(team)) {
    EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
    std::ifstream log(folder_ / ("log." + std::to_string(ending.rank)));
    const std::string said(std::istreambuf_iterator<char>(log), {});
    EXPECT_EQ(said.find("WARN"), std::string::npos) << "strangers are no reason for warnings: " << said;
  }
  EXPECT_GT(knocks, 100);
  std::printf("%d knocks\n", knocks);
}

TEST_F(Siege, OfAJobThatMeetsByUniqueId) {
  const auto meet = [](int32_t rank, ncclUniqueId& id) {
    if (rank == 2 && fork() == 0) {
      close(report_fd);
      setenv("ISTHMUS_SETUP_TIMEOUT", "1s", 1);
      id.internal[30] ^= 1;  // in the secret
      _exit(intrude(id));
    }
    if (rank == 1) usleep(1'500'000);
    int kept_out = 0;
    if (rank == 2 && (wait(&kept_out) < 0 || kept_out != 0)) _exit(4);
  };
  run_under_siege({.meet = meet}, std::string(200, 'x'));
}

/// A free port, and what a rank says first to who listens there.
std::string greeting_at(sockaddr_in& at) {
  const Fd listener(socket(AF_INET, SOCK_STREAM, 0));
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(at);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&at), bytes) != 0 || listen(listener.get(), 5) != 0) return "";
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes);
  const pid_t rank = fork();
  if (rank == 0) {
    setenv("NCCL_COMM_ID", ("127.0.0.1:" + std::to_string(ntohs(at.sin_port))).c_str(), 1);
    setenv("ISTHMUS_SETUP_TIMEOUT", "1s", 1);
    setenv("ISTHMUS_DEBUG", "NONE", 1);
    ncclUniqueId id{};
    ncclComm_t comm = nullptr;
    if (ncclGetUniqueId(&id) == ncclSuccess) ncclCommInitRank(&comm, kRanks, id, 1);
    _exit(0);
  }
  const Fd guest(accept(listener.get(), nullptr, nullptr));
  std::array<char, 4096> said{};
  const ssize_t got = recv(guest.get(), said.data(), said.size(), 0);
  waitpid(rank, nullptr, 0);
  return {said.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

TEST_F(Siege, OfAJobThatMeetsByAddress) {
  sockaddr_in at{};
  const std::string greeting = greeting_at(at);
  ASSERT_FALSE(greeting.empty());
  const auto prepare = [&](int32_t rank) {
    setenv("NCCL_COMM_ID", ("127.0.0.1:" + std::to_string(ntohs(at.sin_port))).c_str(), 1);
    if (rank != 2) return;
    const pid_t intruder = fork();
    if (intruder != 0) return;
    close(report_fd);
    setenv("ISTHMUS_SETUP_TIMEOUT", "1s", 1);
    setenv("ISTHMUS_SECRET_FILE", (folder_ / "wrong").c_str(), 1);
    setenv("ISTHMUS_DEBUG", "NONE", 1);
    ncclUniqueId id{};
    ncclGetUniqueId(&id);
    _exit(intrude(id));
  };
  const auto meet = [](int32_t rank, ncclUniqueId&) {
    if (rank == 1) usleep(1'500'000);
    int kept_out = 0;
    if (rank == 2 && (wait(&kept_out) < 0 || kept_out != 0)) _exit(4);
  };
  run_under_siege({.prepare = prepare, .meet = meet, .own_ids = true}, greeting);
}

TEST_F(Siege, AMissingRankIsNamedAtTheDeadline) {
  const auto endings = run_team({.ranks = kRanks,
                                 .body = [](int32_t, ncclComm_t, Ending&) {},
                                 .prepare = [](int32_t) { setenv("ISTHMUS_SETUP_TIMEOUT", "1s", 1); },
                                 .meet =
                                     [](int32_t rank, ncclUniqueId&) {
                                       if (rank == 2) _exit(0);
                                     }});
  for (const int32_t rank : {0, 1}) {
    const Ending& ending = endings[static_cast<size_t>(rank)];
    EXPECT_EQ(ending.result, ncclRemoteError);
    EXPECT_TRUE(ending.says("1 of 3 ranks did not arrive within 1 s: 2")) << ending.words();
  }
}

}  // namespace
}  // namespace isthmus::proc_test
