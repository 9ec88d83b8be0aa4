// SPDX-License-Identifier: Apache-2.0
// The table of shared segments, by address. Set-up calls take pages from the system; find() is a lookup under a short lock.
#include "memory/shared_segment.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace isthmus::memory {
namespace {

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

uintptr_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

Result<std::byte*> SharedSegments::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > INT64_MAX - page_bytes()) return invalid_argument(fmt::format("cannot allocate {} bytes", bytes));
  const uint64_t rounded = round_to_pages(bytes);
  ISTHMUS_ASSIGN(Fd fd, create_shared_memory("isthmus-segment", rounded));
  ISTHMUS_ASSIGN(Mapping mapping, Mapping::map(fd.get(), rounded, Access::read_write));
  // From here on new mappings can only read. Kernels that do not know the seal leave it to the peers' good will.
  (void)fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);

  std::byte* address = mapping.bytes().data();
  const std::lock_guard lock(mutex_);
  segments_.emplace(address_of(address), Segment{.id = ++last_id_, .fd = std::move(fd), .mapping = std::move(mapping)});
  count_.store(segments_.size(), std::memory_order_release);
  return address;
}

Status SharedSegments::release(void* address) {
  Segment gone;  // unmapped after the lock is given back
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(address_of(address));
  if (found == segments_.end()) return invalid_argument(fmt::format("{} was not allocated here, or was freed before", address));
  gone = std::move(found->second);
  segments_.erase(found);
  count_.store(segments_.size(), std::memory_order_release);
  releases_.fetch_add(1, std::memory_order_acq_rel);
  return {};
}

SharedSegments::ByAddress::const_iterator SharedSegments::containing(uintptr_t address) const {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  const auto candidate = std::prev(after);
  return address - candidate->first < candidate->second.mapping.bytes().size() ? candidate : segments_.end();
}

bool SharedSegments::owns(const void* address) const {
  const std::lock_guard lock(mutex_);
  return containing(address_of(address)) != segments_.end();
}

std::optional<SharedSegments::Place> SharedSegments::find(std::span<const std::byte> memory) const {
  if (count_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = containing(address_of(memory.data()));
  if (found == segments_.end()) return std::nullopt;
  const uint64_t offset = address_of(memory.data()) - found->first;
  if (memory.size() > found->second.mapping.bytes().size() - offset) return std::nullopt;
  return Place{.segment = found->second.id, .offset = offset};
}

Result<SharedSegments::Shared> SharedSegments::share(uint64_t segment) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(segments_, [&](const auto& entry) { return entry.second.id == segment; });
  if (found == segments_.end()) return invalid_argument(fmt::format("shared segment {} does not exist any more", segment));
  Fd copy(fcntl(found->second.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return errno_error("share a segment", errno);
  return Shared{.fd = std::move(copy), .bytes = found->second.mapping.bytes().size()};
}

bool SharedSegments::alive(uint64_t segment) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(segments_, [&](const auto& entry) { return entry.second.id == segment; });
}

}  // namespace isthmus::memory
