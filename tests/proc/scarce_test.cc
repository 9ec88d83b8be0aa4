// SPDX-License-Identifier: Apache-2.0
// What the system refuses: room in /dev/shm, shared memory, reading another process's memory, descriptors. Calls work another way, said
// once, or fail with a text that names what is short; never SIGBUS, never a hang, and what already worked goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "proc/parallel.h"
#include "proc/team.h"

// --- the sanitizers' own descriptors ---------------------------------------------------------------------------------------------

namespace {

/// That limit_descriptors() has set.
std::atomic<rlim_t> descriptor_limit{RLIM_INFINITY};

void apply_descriptor_limit(rlim_t below) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = below;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

/// Sanitizers find out by a pipe whether memory may be read, and take it that it may not when there is none: theirs is not counted. The
/// library itself uses no pipes.
int pipe(int ends[2]) noexcept {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t below = descriptor_limit;
  const bool lift = isthmus::kSanitized && below != RLIM_INFINITY;
  if (lift) apply_descriptor_limit(limit.rlim_max);
  const auto result = static_cast<int>(syscall(SYS_pipe2, ends, 0));
  if (lift) apply_descriptor_limit(below);
  return result;
}

namespace isthmus::proc_test {
namespace {

constexpr int32_t kRanks = 2;

/// From now on this process gets `error` from that system call; false where filters are not allowed.
bool refuse(int system_call, int error) {
  std::array<sock_filter, 4> program = {sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(system_call), 0, 1),
                                        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
                                        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Does `attempt` succeed in a process of its own?
bool is_possible(const std::function<bool()>& attempt) {
  const pid_t pid = fork();
  if (pid == 0) _exit(attempt() ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

/// Standard error of this process into an unnamed file, to be read back.
int capture_log() {
  const int log = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND, 0600);
  if (log >= 0) dup2(log, STDERR_FILENO);
  return log;
}

std::string content_of(int log) {
  std::string text(64 << 10, '\0');
  const ssize_t got = pread(log, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool sums_of_all_sizes_are_right(int32_t rank, ncclComm_t comm, Ending& ending) {
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'000}, size_t{4'000'000}}) {
    if (!sum_is_right(rank, kRanks, comm, count, ending)) return false;
  }
  return true;
}

// --- shared memory ---------------------------------------------------------------------------------------------------------------

/// A /dev/shm of this process's own, with room for nothing.
bool have_full_dev_shm() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") != 0) return false;
  const int filler = open("/dev/shm/filler", O_CREAT | O_WRONLY, 0600);
  const std::array<char, 4096> page{};
  const bool full = filler >= 0 && write(filler, page.data(), page.size()) == static_cast<ssize_t>(page.size());
  close(filler);
  return full;
}

TEST(Scarce, AFullDevShmIsNotNeeded) {
  if (!is_possible(have_full_dev_shm)) GTEST_SKIP() << "needs root: mounts a full /dev/shm of its own";
  const auto endings = run_team({.ranks = kRanks, .body = sums_of_all_sizes_are_right, .prepare = [](int32_t) {
                                   if (!have_full_dev_shm()) _exit(3);
                                 }});
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
}

/// Both ranks fail, and the one that was refused says what and how to help it.
void expect_clear(const std::vector<Ending>& endings, const char* what) {
  for (const Ending& ending : endings) {
    EXPECT_TRUE(ending.result == ncclSystemError || ending.result == ncclRemoteError) << ending.result << ": " << ending.words();
    EXPECT_TRUE(ending.says(what)) << ending.words();
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
}

TEST(Scarce, RefusedSharedMemoryIsNamed) {
  if (!is_possible([] { return refuse(SYS_memfd_create, EPERM); })) GTEST_SKIP() << "needs seccomp filters";
  expect_clear(
      run_team({.ranks = kRanks, .body = sums_of_all_sizes_are_right, .prepare = [](int32_t) { refuse(SYS_memfd_create, EPERM); }}),
      "memfd_create is refused here");
}

TEST(Scarce, TheLimitOnFileSizesIsNamed) {
  expect_clear(run_team({.ranks = kRanks,
                         .body = sums_of_all_sizes_are_right,
                         .prepare =
                             [](int32_t) {
                               const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
                               setrlimit(RLIMIT_FSIZE, &limit);
                             }}),
               "ulimit -f");
}

TEST(Scarce, RefusedSharedMemoryFailsOnlyWhatNeedsIt) {
  if (!is_possible([] { return refuse(SYS_memfd_create, EPERM); })) GTEST_SKIP() << "needs seccomp filters";
  const auto endings = run_team({.ranks = 1, .body = [](int32_t, ncclComm_t comm, Ending& ending) {
                                   refuse(SYS_memfd_create, EPERM);
                                   void* memory = nullptr;
                                   const ncclResult_t refused = ncclMemAlloc(&memory, 1 << 20);
                                   if (!sum_is_right(0, 1, comm, 1000, ending)) return;
                                   note(ending, refused);
                                 }});
  EXPECT_EQ(endings[0].result, ncclSystemError);
  EXPECT_TRUE(endings[0].says("memfd_create")) << endings[0].words();
}

// --- reading another process's memory --------------------------------------------------------------------------------------------

TEST(Scarce, RefusedReadsOfMemoryAreReplacedAndSaidOnce) {
  if (!is_possible([] { return refuse(SYS_process_vm_readv, EPERM); })) GTEST_SKIP() << "needs seccomp filters";
  const auto endings =
      run_team({.ranks = kRanks,
                .body =
                    [](int32_t rank, ncclComm_t comm, Ending& ending) {
                      const int log = capture_log();
                      refuse(SYS_process_vm_readv, EPERM);
                      for (int i = 0; i < 3; ++i) {
                        if (!sums_of_all_sizes_are_right(rank, comm, ending)) return;
                      }
                      const std::string text = content_of(log);
                      const size_t said = count_of(text, "copied twice");
                      note(ending, said == 1 && count_of(text, "NCCL WARN") == 1 ? ncclSuccess : ncclInternalError, text.c_str());
                    },
                .prepare = [](int32_t) { unsetenv("ISTHMUS_DEBUG"); }});
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << ending.words();
}

// --- descriptors -----------------------------------------------------------------------------------------------------------------

void limit_descriptors(int below) {
  descriptor_limit = static_cast<rlim_t>(below);
  apply_descriptor_limit(descriptor_limit);
}

/// Lets this process open `spare` more descriptors; the limit is on their numbers.
void leave_descriptors(int spare) {
  int below = 0;
  for (; spare > 0; ++below) spare -= fcntl(below, F_GETFD) < 0 ? 1 : 0;
  limit_descriptors(below);
}

/// Descriptors that are closed by other threads take a moment.
bool settles_at(int descriptors) {
  for (int i = 0; i < 2000 && count_descriptors() > descriptors; ++i) usleep(1000);
  return count_descriptors() <= descriptors;
}

/// Either all goes well or somebody names the limit; nobody hangs.
void start_with(int spare) {
  const auto endings = run_team({.ranks = kRanks, .body = sums_of_all_sizes_are_right, .limit_ms = 20'000, .prepare = [=](int32_t) {
                                   setenv("ISTHMUS_SETUP_TIMEOUT", "2s", 1);
                                   leave_descriptors(spare);
                                 }});
  bool all_well = true, named = false;
  for (const Ending& ending : endings) {
    all_well = all_well && ending.result == ncclSuccess;
    named = named || (ending.result == ncclSystemError && ending.says("ulimit -n")) || ending.says("ulimit -n");
    EXPECT_NE(ending.result, -1) << "rank " << ending.rank << " hangs";
    EXPECT_TRUE(ending.exited(0)) << ending.wait_status;
  }
  EXPECT_TRUE(all_well || named) << endings[0].words() << " | " << endings[1].words();
  std::printf("%2d descriptors: %s\n", spare, all_well ? "enough" : endings[endings[0].result == ncclSuccess ? 1 : 0].text.data());
}

TEST(Scarce, FewDescriptorsAtTheStart) {
  std::vector<Case> cases;
  for (const int spare : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 40}) {
    cases.push_back({.name = std::to_string(spare) + " descriptors", .run = [=] { start_with(spare); }});
  }
  run_in_parallel(cases);
}

std::string another_communicator(int spare) {
  const int before = count_descriptors();
  leave_descriptors(spare);
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclGetUniqueId(&id);
  if (result == ncclSuccess) result = ncclCommInitRank(&comm, 1, id, 0);
  const std::string text = result == ncclSuccess ? "" : ncclGetLastError(nullptr);
  limit_descriptors(1000);
  // An id that nobody used still waits for its ranks.
  if (result != ncclSuccess && ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) comm = nullptr;
  if (comm != nullptr) ncclCommDestroy(comm);
  if (result != ncclSuccess && text.find("ulimit -n") == std::string::npos) return "the limit is not named: " + text;
  if (!settles_at(before)) return std::to_string(before) + " descriptors have become " + std::to_string(count_descriptors());
  return "";
}

TEST(Scarce, FewDescriptorsLaterLeaveWhatWorks) {
  const auto endings = run_team({.ranks = kRanks,
                                 .body =
                                     [](int32_t rank, ncclComm_t comm, Ending& ending) {
                                       for (int spare = 0; spare < 8; ++spare) {
                                         if (!sums_of_all_sizes_are_right(rank, comm, ending)) return;
                                         if (rank == 1) continue;
                                         const std::string complaint = another_communicator(spare);
                                         if (!complaint.empty())
                                           return note(ending, ncclInternalError, (std::to_string(spare) + " spare: " + complaint).c_str());
                                       }
                                     },
                                 .limit_ms = 40'000,
                                 .prepare = [](int32_t) { setenv("ISTHMUS_SETUP_TIMEOUT", "1s", 1); }});
  for (const Ending& ending : endings) EXPECT_EQ(ending.result, ncclSuccess) << "rank " << ending.rank << ": " << ending.words();
}

}  // namespace
}  // namespace isthmus::proc_test
