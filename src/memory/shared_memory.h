// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that processes share by handing over a descriptor (memfd). Used by shared_segment.h and transport/local. Pages
// are reserved and sizes sealed, so touching a mapping never raises SIGBUS, whatever the other side does. Fails where the system
// lacks memory, descriptors or memfd, and then says what to change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/fd.h"
#include "base/status.h"

namespace isthmus::memory {

/// The system's page size; sizes and offsets of mappings are multiples of it.
uint64_t page_bytes();
/// `bytes` rounded up to whole pages.
uint64_t round_to_pages(uint64_t bytes);

/// `bytes` of zeroed shared memory. `label` shows up in /proc/PID/maps.
Result<Fd> create_shared_memory(const char* label, uint64_t bytes);

/// Refuses a descriptor, from another process, that is not shared memory of at least `bytes` which can never shrink.
Status check_shared_memory(int fd, uint64_t bytes);

enum class Access : uint8_t { read, read_write };

/// A mapping that goes when its owner goes.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping taken(std::move(other));
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  ~Mapping();

  /// `bytes` of `fd` from its beginning.
  static Result<Mapping> map(int fd, uint64_t bytes, Access access);
  /// Room in the address space for what overlay() puts there; touching the rest faults.
  static Result<Mapping> reserve(uint64_t bytes);
  /// Maps `bytes` of `fd` from `offset` at `at` of this reservation, writable. All multiples of the page size.
  Status overlay(uint64_t at, int fd, uint64_t offset, uint64_t bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace isthmus::memory
