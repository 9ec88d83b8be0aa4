// SPDX-License-Identifier: Apache-2.0
// Shared segments: lookup by address, what another mapping sees, life beyond release, seals, and clean failure when descriptors or
// memory run out.
#include "memory/shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "memory/available.h"

namespace isthmus::memory {
namespace {

TEST(SharedSegments, FindsMemoryByAddress) {
  SharedSegments segments;
  EXPECT_FALSE(segments.find(std::as_bytes(std::span("stack"))));
  std::byte* a = *segments.allocate(10000);
  std::byte* b = *segments.allocate(5 * page_bytes());
  const auto inside = segments.find({b + 100, 4 * page_bytes()});
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->segment, 2U);
  EXPECT_EQ(inside->offset, 100U);
  EXPECT_EQ(segments.find({a, 10000})->segment, 1U);
  EXPECT_TRUE(segments.owns(a + 9999));
  EXPECT_FALSE(segments.find({b + page_bytes(), 4 * page_bytes() + 1})) << "reaches beyond the segment";
  EXPECT_FALSE(segments.find({b + 5 * page_bytes(), 1}) && segments.find({b + 5 * page_bytes(), 1})->segment == 2);
  EXPECT_EQ(segments.release(a + 1).code(), Code::invalid_argument);
  EXPECT_TRUE(segments.release(a).ok());
  EXPECT_EQ(segments.release(a).code(), Code::invalid_argument);
  EXPECT_FALSE(segments.owns(a));
  EXPECT_FALSE(segments.alive(1));
  EXPECT_EQ(segments.releases(), 1U);
  std::byte* c = *segments.allocate(1);
  EXPECT_EQ(segments.find({c, 1})->segment, 3U) << "numbers are not used again";
}

TEST(SharedSegments, PeersReadThroughTheirOwnMappingEvenAfterRelease) {
  SharedSegments segments;
  std::byte* memory = *segments.allocate(100000);
  EXPECT_EQ(memory[99999], std::byte{0});
  auto shared = segments.share(1);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->bytes, round_to_pages(100000));
  ASSERT_TRUE(check_shared_memory(shared->fd.get(), shared->bytes).ok());
  auto mapping = Mapping::map(shared->fd.get(), shared->bytes, Access::read);
  ASSERT_TRUE(mapping.ok());
  std::memset(memory, 0x5a, 100000);
  EXPECT_EQ(mapping->bytes()[99999], std::byte{0x5a});
  ASSERT_TRUE(segments.release(memory).ok());
  EXPECT_EQ(mapping->bytes()[99999], std::byte{0x5a});
  EXPECT_FALSE(segments.share(1).ok());
}

TEST(SharedSegments, HoldersOfTheDescriptorCannotShrinkOrWrite) {
  SharedSegments segments;
  ASSERT_TRUE(segments.allocate(100000).ok());
  auto shared = segments.share(1);
  EXPECT_NE(ftruncate(shared->fd.get(), 10), 0);
  if ((fcntl(shared->fd.get(), F_GET_SEALS) & 0x10) == 0) GTEST_SKIP() << "this kernel has no F_SEAL_FUTURE_WRITE";
  EXPECT_FALSE(Mapping::map(shared->fd.get(), shared->bytes, Access::read_write).ok());
  EXPECT_LT(write(shared->fd.get(), "x", 1), 0);
}

/// Lowers a limit for the time of a test.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource, &before_), 0);
    const rlimit low{.rlim_cur = value, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(resource, &low), 0);
  }
  ~Limit() { setrlimit(resource_, &before_); }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(SharedSegments, RefusesImpossibleSizes) {
  // Should the refusal under test break, the kernel must not hand out all memory of the machine: this limit stops it then.
  signal(SIGXFSZ, SIG_IGN);
  const uint64_t half_exbibyte = uint64_t{1} << 59;
  const Limit limit(RLIMIT_FSIZE, 16 << 20);
  SharedSegments segments;
  EXPECT_EQ(segments.allocate(0).status().code(), Code::invalid_argument);
  EXPECT_EQ(segments.allocate(UINT64_MAX).status().code(), Code::invalid_argument);
  const auto huge = segments.allocate(half_exbibyte);
  ASSERT_FALSE(huge.ok());
  EXPECT_NE(huge.status().text().find("ulimit -f"), std::string::npos) << huge.status().text();
  EXPECT_EQ(huge.status().text().find("File too large"), std::string::npos) << "must be refused before the kernel is asked";
  EXPECT_TRUE(segments.allocate(8 << 20).ok());
}

TEST(Available, ReadsHostAndControlGroups) {
  EXPECT_GT(available_bytes(), 0U);
  EXPECT_LT(available_bytes(), uint64_t{1} << 50);

  const std::string root = testing::TempDir() + "isthmus_available";
  std::filesystem::create_directories(root + "/proc/self");
  std::filesystem::create_directories(root + "/sys/fs/cgroup/job");
  std::filesystem::create_directories(root + "/sys/fs/cgroup/memory/old");
  const auto write = [&](const std::string& path, const std::string& text) { std::ofstream(root + path) << text; };
  EXPECT_EQ(available_bytes(root), UINT64_MAX) << "nothing known";
  write("/proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:  1000 kB\n");
  EXPECT_EQ(available_bytes(root), 1000U << 10);
  write("/proc/self/cgroup", "5:cpuset:/x\n4:memory:/old\n0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(available_bytes(root), 1000U << 10) << "no limit";
  write("/sys/fs/cgroup/job/memory.max", "6000\n");
  write("/sys/fs/cgroup/job/memory.stat", "anon 3000\nactive_file 500\ninactive_file 1500\n");
  EXPECT_EQ(available_bytes(root), 3000U);
  write("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "900\n");
  write("/sys/fs/cgroup/memory/old/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(available_bytes(root), 0U);
  std::filesystem::remove_all(root);
}

TEST(SharedSegments, SaysWhatToDoWhenDescriptorsRunOut) {
  const auto refused = [] {
    const Limit limit(RLIMIT_NOFILE, 3);
    return create_shared_memory("test", 4096);
  }();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().text().find("ulimit -n"), std::string::npos) << refused.status().text();
}

TEST(SharedMemory, RefusesWhatIsNotSealedOrTooSmall) {
  Fd plain(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), 8192), 0);
  EXPECT_FALSE(check_shared_memory(plain.get(), 8192).ok()) << "could shrink under our feet";
  Fd pipe_end(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(check_shared_memory(pipe_end.get(), 0).ok());
  auto good = create_shared_memory("test", 8192);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(check_shared_memory(good->get(), 8192).ok());
  EXPECT_FALSE(check_shared_memory(good->get(), 8193).ok());
}

TEST(SharedMemory, OverlayMapsTheSamePagesTwice) {
  const uint64_t page = page_bytes();
  auto fd = create_shared_memory("test", 2 * page);
  ASSERT_TRUE(fd.ok());
  auto mapping = Mapping::reserve(4 * page);
  ASSERT_TRUE(mapping.ok());
  ASSERT_TRUE(mapping->overlay(0, fd->get(), 0, 2 * page).ok());
  ASSERT_TRUE(mapping->overlay(2 * page, fd->get(), 0, 2 * page).ok());
  std::byte* bytes = mapping->bytes().data();
  bytes[2 * page - 1] = std::byte{1};
  bytes[2 * page] = std::byte{2};
  EXPECT_EQ(bytes[4 * page - 1], std::byte{1});
  EXPECT_EQ(bytes[0], std::byte{2});
}

TEST(SharedSegments, ThreadsMayAllocateWhileOthersLookUp) {
  SharedSegments segments;
  std::byte* stable = *segments.allocate(4096);
  std::thread user([&] {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(segments.release(*segments.allocate(4096)).ok());
  });
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(segments.find({stable, 4096})->segment, 1U);
  user.join();
  EXPECT_EQ(segments.releases(), 200U);
}

}  // namespace
}  // namespace isthmus::memory
