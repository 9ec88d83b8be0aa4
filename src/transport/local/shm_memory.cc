// SPDX-License-Identifier: Apache-2.0
// PeerMemory over mmap and process_vm_readv. view() is on the path of every large message.
#include "transport/local/shm_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>

namespace isthmus::transport {
namespace {

// The system takes remote addresses as pointers.
void* as_pointer(uint64_t address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

}  // namespace

Result<uint64_t> PeerMemory::probe(pid_t pid, uint64_t address) {
  uint64_t word = 0;
  const iovec local{.iov_base = &word, .iov_len = sizeof word};
  const iovec remote{.iov_base = as_pointer(address), .iov_len = sizeof word};
  const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  if (got < 0 && errno == ESRCH && pid > 0) return remote_error("its process has ended");
  if (got != static_cast<ssize_t>(sizeof word)) return errno_error("process_vm_readv", got < 0 ? errno : EFAULT);
  pid_ = pid;
  probe_address_ = address;
  probe_ = word;
  return word;
}

Status PeerMemory::map(uint64_t segment, Fd fd, uint64_t bytes) {
  if (bytes == 0) return remote_error("it announced an empty shared segment");
  ISTHMUS_TRY(memory::check_shared_memory(fd.get(), bytes));
  ISTHMUS_ASSIGN(memory::Mapping mapping, memory::Mapping::map(fd.get(), bytes, memory::Access::read));
  segments_.insert_or_assign(segment, std::move(mapping));
  return {};
}

Result<std::span<const std::byte>> PeerMemory::view(const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                                    std::span<std::byte> bounce) const {
  if (offset > remote.bytes || bytes > remote.bytes - offset)
    return remote_error(fmt::format("{} bytes at {} reach beyond its offer of {} bytes", bytes, offset, remote.bytes));
  const auto segment = segments_.find(remote.segment);
  if (segment != segments_.end()) {
    const std::span<const std::byte> all = segment->second.bytes();
    if (remote.offset > all.size() || remote.bytes > all.size() - remote.offset)
      return remote_error(fmt::format("its offer reaches beyond shared segment {}", remote.segment));
    return all.subspan(remote.offset + offset, bytes);
  }
  if (bytes > bounce.size()) return internal_error(fmt::format("view of {} bytes with room for {}", bytes, bounce.size()));
  return copy(remote.address + offset, bounce.first(bytes));
}

Result<std::span<const std::byte>> PeerMemory::copy(uint64_t address, std::span<std::byte> to) const {
  if (pid_ == 0) return remote_error("it offered memory that this process can neither map nor read");
  uint64_t word = 0;
  const std::array<iovec, 2> local{iovec{.iov_base = &word, .iov_len = sizeof word}, iovec{.iov_base = to.data(), .iov_len = to.size()}};
  const std::array<iovec, 2> remote{iovec{.iov_base = as_pointer(probe_address_), .iov_len = sizeof word},
                                    iovec{.iov_base = as_pointer(address), .iov_len = to.size()}};
  const ssize_t got = process_vm_readv(pid_, local.data(), local.size(), remote.data(), remote.size(), 0);
  if (got < 0) return remote_error(errno_error("reading its memory (process_vm_readv)", errno).text());
  if (word != probe_) return remote_error("its process number now belongs to another process");
  if (static_cast<size_t>(got) != sizeof word + to.size()) return remote_error("the memory that it offered is not mapped any more");
  return std::span<const std::byte>(to);
}

}  // namespace isthmus::transport
