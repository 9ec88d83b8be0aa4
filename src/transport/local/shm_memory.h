// SPDX-License-Identifier: Apache-2.0
// Reading another process's memory where it lies: shared segments that it announced, mapped once, and any other memory by single copy
// (CMA: process_vm_readv). Owned by Shm, one per peer. Fails when the peer is gone, the system refuses, or the place makes no sense.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/fd.h"
#include "base/status.h"
#include "memory/shared_memory.h"
#include "wire/frame.h"

namespace isthmus::transport {

class PeerMemory {
 public:
  /// Tries to read the word at `address` of process `pid`. Later reads take the word along, so that a process that got the number
  /// of a dead one is never read by mistake. The error is the system's refusal.
  Result<uint64_t> probe(pid_t pid, uint64_t address);

  /// Maps a segment that the peer announced. A descriptor that is not what was announced is the peer's fault (remote_error).
  Status map(uint64_t segment, Fd fd, uint64_t bytes);
  void unmap(uint64_t segment) { segments_.erase(segment); }
  [[nodiscard]] bool knows(uint64_t segment) const { return segments_.contains(segment); }

  /// `bytes` of `remote` from `offset`: in a segment that is mapped where they lie, else copied to `bounce`. Valid until the next call of
  /// the transport. Everything in `remote` is untrusted.
  Result<std::span<const std::byte>> view(const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                          std::span<std::byte> bounce) const;
  void clear() { segments_.clear(); }

 private:
  Result<std::span<const std::byte>> copy(uint64_t address, std::span<std::byte> to) const;

  pid_t pid_ = 0;  // 0: reading is refused
  uint64_t probe_address_ = 0;
  uint64_t probe_ = 0;
  std::unordered_map<uint64_t, memory::Mapping> segments_;
};

}  // namespace isthmus::transport
