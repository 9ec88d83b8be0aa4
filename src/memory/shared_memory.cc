// SPDX-License-Identifier: Apache-2.0
// shared_memory.h over memfd_create, fallocate and file seals. Called at set-up, never on the fast path.
#include "memory/shared_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cassert>
#include <cerrno>
#include <string>
#include <string_view>

#include "memory/available.h"

namespace isthmus::memory {
namespace {

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/// The advice that belongs to an errno of the calls below.
std::string_view advice(int error) {
  switch (error) {
    case ENOSPC:
    case ENOMEM:
      return " (shared memory is exhausted: raise the memory limit of the host or container, or run fewer ranks on it)";
    case ENOSYS:
    case EPERM:
    case EACCES:
      return " (memfd_create is refused here: allow it in the container's seccomp profile and vm.memfd_noexec, or set "
             "ISTHMUS_SHM_DISABLE=1)";
    default:
      return "";
  }
}

Status failure(std::string_view what, int error) {
  const Status status = errno_error(what, error);
  return system_error(status.text() + std::string(advice(error)));
}

/// Kernels since 6.3 may insist on the no-exec flag, older ones do not know it.
int open_memfd(const char* label) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(label, flags | MFD_NOEXEC_SEAL);
  return fd < 0 && errno == EINVAL ? memfd_create(label, flags) : fd;
}

/// fallocate() neither refuses what the host cannot give (the out-of-memory killer would) nor fails quietly at the limit on file
/// sizes (a signal would end the process), so both are asked before.
Status check_room(uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
    return system_error(
        fmt::format("reserve {} bytes of shared memory: the limit on file sizes is {} (raise it: ulimit -f)", bytes, limit.rlim_cur));
  const uint64_t all = available_bytes();
  const uint64_t available = all - all / 32;  // the rest of the system lives on something too
  if (bytes > available || bytes > INT64_MAX)
    return failure(fmt::format("reserve {} bytes of shared memory where {} are available", bytes, available), ENOMEM);
  return {};
}

int reserve_pages(int fd, uint64_t bytes) {
  int result = fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR) result = fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  return result;
}

}  // namespace

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t round_to_pages(uint64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

Result<Fd> create_shared_memory(const char* label, uint64_t bytes) {
  Fd fd(open_memfd(label));
  if (!fd.valid()) return failure("memfd_create", errno);
  ISTHMUS_TRY(check_room(bytes));
  // fallocate both sizes the file and takes its pages: a full system says so here and not with SIGBUS later.
  if (reserve_pages(fd.get(), bytes) != 0) return failure(fmt::format("reserve {} bytes of shared memory", bytes), errno);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failure("seal shared memory", errno);
  return fd;
}

Status check_shared_memory(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return remote_error("a descriptor that is not sealed shared memory");
  struct stat info {};
  if (fstat(fd, &info) != 0) return errno_error("fstat of shared memory", errno);
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes)
    return remote_error(fmt::format("shared memory of {} bytes where {} were announced", info.st_size, bytes));
  return {};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<Mapping> Mapping::map(int fd, uint64_t bytes, Access access) {
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return failure(fmt::format("map {} bytes of shared memory", bytes), errno);
  return Mapping({static_cast<std::byte*>(at), bytes});
}

Result<Mapping> Mapping::reserve(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return failure(fmt::format("reserve {} bytes of addresses", bytes), errno);
  return Mapping({static_cast<std::byte*>(at), bytes});
}

Status Mapping::overlay(uint64_t at, int fd, uint64_t offset, uint64_t bytes) {
  assert(at + bytes <= bytes_.size());
  void* mapped = mmap(bytes_.data() + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return failure(fmt::format("map {} bytes of shared memory", bytes), errno);
  return {};
}

}  // namespace isthmus::memory
