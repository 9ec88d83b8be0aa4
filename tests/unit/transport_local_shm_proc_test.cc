// SPDX-License-Identifier: Apache-2.0
// Shm between real processes: sleeping and waking, back-pressure, reads of the other's memory, death at any moment, and a system that
// refuses descriptors or single-copy reads.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <random>

#include "memory_huge_pages.h"
#include "transport_local_shm_nodes.h"

namespace isthmus::transport {
namespace {

constexpr int kParent = 1;
constexpr int kChild = 2;

/// A forked process with a node that knows the parent's. It ends when `body` returns; a test failure inside makes its exit code 1.
class ChildProcess {
 public:
  ChildProcess(Node& parent, const std::function<void(Node&)>& body, const ShmOptions& options = {}) {
    std::array<int, 2> up{};
    std::array<int, 2> down{};
    EXPECT_EQ(pipe2(up.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(down.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      Node node(kChild, options);
      const auto blob = node.shm->local_blob();
      std::vector<std::byte> other(64);
      if (write(up[1], blob.data(), blob.size()) < 0) _exit(2);
      const ssize_t got = read(down[0], other.data(), other.size());
      if (got <= 0) _exit(3);
      node.meet(kParent, std::span(other).first(static_cast<size_t>(got)));
      body(node);
      node.shm.reset();
      fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    const auto blob = parent.shm->local_blob();
    EXPECT_GT(write(down[1], blob.data(), blob.size()), 0);
    std::vector<std::byte> other(64);
    const ssize_t got = read(up[0], other.data(), other.size());
    EXPECT_GT(got, 0);
    parent.meet(kChild, std::span(other).first(static_cast<size_t>(got)));
    for (const int fd : {up[0], up[1], down[0], down[1]}) close(fd);
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      kill(SIGKILL);
      wait();
    }
  }
  void kill(int signal) const { ::kill(pid_, signal); }
  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

constexpr uint64_t kPings = 20000;

uint64_t ping_bytes(uint64_t i) { return i % 97 == 0 ? 400000 : i * 31 % 200; }

/// One side of a ping-pong that spins a random while before it sleeps. No sleep may be missed: a wake-up that is lost shows as a time-out.
void ping_pong(Node& node, int other, bool begins, unsigned seed) {
  std::mt19937 random(seed);
  node.sink.check_content = false;
  const PeerId peer = static_cast<PeerId>(other);
  for (uint64_t i = 0; i < kPings; ++i) {
    if (begins || i > 0) {
      ASSERT_TRUE(node.send(other, node.kept.emplace_back(ping_bytes(i))).ok());
      if (node.kept.size() > 4) node.kept.pop_front();
    }
    unsigned spins = random() % 3 == 0 ? random() % 200 : 0;
    while (node.sink.froms[peer].frames <= i) {
      if (node.poll() || spins-- > 0) continue;
      spins = random() % 20;
      ASSERT_TRUE(node.sleep(5000)) << "nobody rang at exchange " << i;
      ASSERT_TRUE(node.sink.failures.empty());
    }
  }
  if (!begins) {
    ASSERT_TRUE(node.send(other, node.kept.emplace_back(ping_bytes(kPings - 1))).ok());
  }
  const TimeNs limit = now() + 200 * kMillisecondNs;
  while (node.poll() || now() < limit) {
  }
}

TEST(ShmProcesses, SleepAndWakeWithoutLosingARing) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) { ping_pong(node, kParent, false, 2); });
  ping_pong(parent, kChild, true, 1);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcesses, ASleepingWriterIsWokenWhenThereIsRoom) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) {
    while (node.sink.froms[kParent].frames < 40) {
      if (!node.poll()) {
        ASSERT_TRUE(node.sleep(5000));
      }
    }
  });
  std::vector<std::vector<std::byte>> payloads;
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(parent.send(kChild, payloads.emplace_back(payload_of(i, 500000)), 1).ok());
  while (parent.sink.sent.size() < 40) {
    if (!parent.poll()) {
      ASSERT_TRUE(parent.sleep(5000)) << "with " << parent.sink.sent.size() << " sent";
    }
  }
  EXPECT_EQ(child.wait(), 0);
}

/// Offers memory, the last of so many times to the parent in a frame of its own, and stays until the parent has answered.
void offer_and_wait(Node& node, std::span<const std::byte> memory, uint64_t times = 1) {
  ASSERT_TRUE(node.send_new(kParent, 0).ok());  // connects
  wire::RemoteSpan remote;
  const TimeNs limit = now() + 5 * kPatience * kSecondNs;
  while (!node.shm->offer(kParent, memory, remote)) {
    node.poll();
    ASSERT_LT(now(), limit) << "nothing to be offered";
  }
  for (uint64_t again = 1; again < times; ++again) ASSERT_TRUE(node.shm->offer(kParent, memory, remote));
  std::vector<std::byte> encoded(wire::RemoteSpan::kBytes);
  wire::encode(remote, std::span<std::byte, wire::RemoteSpan::kBytes>(encoded.data(), wire::RemoteSpan::kBytes));
  node.sink.check_content = false;
  const wire::FrameHeader header{.type = wire::FrameType::offer, .length = encoded.size(), .key = node.next_key[kParent]++};
  ASSERT_TRUE(node.shm->send(kParent, header, encoded, kNoToken).ok());
  while (node.sink.froms[kParent].frames == 0 && node.sink.failures.empty()) node.poll();
}

/// Reads the offer that the next frame carries.
void take_offer(Node& node, uint64_t key, uint64_t bytes, bool in_place) {
  wire::RemoteSpan remote;
  node.sink.check_content = false;
  ASSERT_TRUE(run_until({&node}, [&] { return node.sink.froms[kChild].frames == 2; }));
  const auto& landing = node.sink.froms[kChild].landing;  // key 1 lands
  ASSERT_EQ(landing.size(), wire::RemoteSpan::kBytes);
  remote = wire::decode_remote(std::span<const std::byte, wire::RemoteSpan::kBytes>(landing.data(), wire::RemoteSpan::kBytes));
  ASSERT_EQ(remote.bytes, bytes);
  EXPECT_EQ(remote.segment != 0, in_place);
  std::vector<std::byte> bounce(256 << 10);
  for (uint64_t at = 0; at < bytes;) {
    const uint64_t piece = std::min<uint64_t>(bounce.size(), bytes - at);
    const auto seen = node.shm->view(kChild, remote, at, piece, bounce);
    ASSERT_TRUE(seen.ok()) << seen.status().text();
    EXPECT_EQ(seen->data() != bounce.data(), in_place);
    for (uint64_t i = 0; i < piece; ++i) ASSERT_EQ((*seen)[i], pattern(key, at + i)) << at + i;
    at += piece;
  }
  ASSERT_TRUE(node.send_new(kChild, 0).ok());
}

TEST(ShmProcesses, ReadTheOthersMemory) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) { offer_and_wait(node, node.kept.emplace_back(payload_of(42, 3 << 20))); });
  take_offer(parent, 42, 3 << 20, false);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcesses, ReadTheOthersSegment) {
  Node parent(kParent, {.cma_disable = true});
  ChildProcess child(parent, [](Node& node) {
    std::byte* memory = *node.segments.allocate(3 << 20);
    for (uint64_t i = 0; i < 3 << 20; ++i) memory[i] = pattern(42, i);
    offer_and_wait(node, {memory, 3 << 20});
  });
  take_offer(parent, 42, 3 << 20, true);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcesses, WhatIsReadAgainAndAgainMovesIntoHugePages) {
  if (!memory::testing::system_moves()) GTEST_SKIP() << "this system does not move memory into huge pages, or does so by itself";
  for (const bool wanted : {false, true}) {
    Node parent(kParent);
    ChildProcess child(parent,
                       [&](Node& node) {
                         const memory::testing::Memory memory;
                         const std::span all(memory.page(), memory::testing::kPage);
                         for (uint64_t i = 0; i < all.size(); ++i) all[i] = pattern(42, i);
                         offer_and_wait(node, all, memory::HugePages::kReadings);
                         EXPECT_EQ(memory.huge_kib(), wanted ? memory::testing::kPage >> 10 : 0U);
                       },
                       {.huge_pages = wanted});
    take_offer(parent, 42, memory::testing::kPage, false);
    EXPECT_EQ(child.wait(), 0);
  }
}

/// Makes the kernel answer process_vm_readv with EPERM, as container profiles do.
void forbid_single_copy() {
  std::array<sock_filter, 4> program = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_readv},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(ShmProcesses, WhereSingleCopyIsForbiddenMemoryIsPushedAndThatIsSaidOnce) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) {
    forbid_single_copy();
    ASSERT_TRUE(run_until({&node}, [&] { return node.sink.froms[kParent].frames == 1; }));
    ASSERT_EQ(node.notices.size(), 1U);
    EXPECT_NE(node.notices[0].find("Operation not permitted"), std::string::npos) << node.notices[0];
    ASSERT_TRUE(node.send_new(kParent, 0).ok());
    ASSERT_TRUE(run_until({&node}, [&] { return node.sink.froms[kParent].frames == 2; }));
  });
  ASSERT_TRUE(parent.send_new(kChild, 1 << 20).ok());
  ASSERT_TRUE(run_until({&parent}, [&] { return parent.sink.froms[kChild].frames == 1; }));
  const auto memory = payload_of(1, 100000);
  wire::RemoteSpan remote;
  EXPECT_FALSE(parent.shm->offer(kChild, memory, remote)) << "the child could not read it";
  ASSERT_TRUE(parent.send_new(kChild, 0).ok());
  EXPECT_EQ(child.wait(), 0);
}

TEST(ShmProcesses, DeathAtAnyMomentIsReported) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    Node parent(kParent);
    ChildProcess child(parent, [](Node& node) {
      for (uint64_t i = 0;; ++i) {
        if (node.kept.size() < 50) (void)node.send_new(kParent, i % 5 == 0 ? 300000 : 40);
        node.poll();
      }
    });
    parent.sink.check_content = round % 2 == 0;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(parent.send_new(kChild, i == 1 ? 1 << 20 : 50).ok());
    const TimeNs end = now() + random() % 3000 * kMicrosecondNs;
    while (now() < end) parent.poll();
    child.kill(SIGKILL);
    const TimeNs killed = now();
    const bool asleep = round % 3 == 0;
    while (parent.sink.failures.empty()) {
      if (!parent.poll() && asleep) {
        ASSERT_TRUE(parent.sleep(5000)) << "round " << round;
      }
      ASSERT_LT(now(), killed + 5 * kPatience * kSecondNs) << "round " << round;
    }
    const Status why = parent.sink.failures[kChild].at(0);
    EXPECT_EQ(why.code(), Code::remote_error);
    EXPECT_EQ(why.origin_rank(), kChild);
    EXPECT_EQ(why.text().rfind("rank 2 on host here: ", 0), 0U) << why.text();
    EXPECT_FALSE(parent.send(kChild, {}).ok());
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
  }
}

TEST(ShmProcesses, AStoppedPeerFailsAtTheDeadline) {
  Node parent(kParent, {.setup_timeout_ns = 50 * kMillisecondNs});
  ChildProcess child(parent, [](Node&) { pause(); });
  ASSERT_TRUE(parent.send_new(kChild, 10).ok());
  ASSERT_TRUE(run_until({&parent}, [&] { return !parent.sink.failures.empty(); }));
  EXPECT_EQ(parent.sink.failures[kChild][0].code(), Code::timeout);
}

TEST(ShmProcesses, TooFewDescriptorsFailCleanlyWithAdvice) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) { (void)run_until({&node}, [&] { return !node.sink.failures.empty(); }); });
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd next(dup(0));  // the lowest free number
  const rlimit low{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_TRUE(parent.send_new(kChild, 10).ok());
  const bool failed = run_until({&parent}, [&] { return !parent.sink.failures.empty(); });
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(failed);
  const Status why = parent.sink.failures[kChild][0];
  EXPECT_EQ(why.code(), Code::system_error);
  EXPECT_NE(why.text().find("ulimit -n"), std::string::npos) << why.text();
}

TEST(ShmProcesses, AForkedChildOfAPeerDoesNotKeepItAlive) {
  Node parent(kParent);
  ChildProcess child(parent, [](Node& node) {
    ASSERT_TRUE(run_until({&node}, [&] { return node.sink.froms[kParent].frames == 1; }));
    if (fork() == 0) {  // holds all descriptors for a while, as a data loader would
      usleep(3000000 * kPatience);
      _exit(0);
    }
  });
  ASSERT_TRUE(parent.send_new(kChild, 10).ok());
  const TimeNs start = now();
  ASSERT_TRUE(run_until({&parent}, [&] { return !parent.sink.failures.empty(); }));
  EXPECT_LT(now() - start, 2500 * kPatience * kMillisecondNs);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace isthmus::transport
