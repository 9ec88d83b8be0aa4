// SPDX-License-Identifier: Apache-2.0
// Memory lent for the time of a call: scratch regions, inbox slots, messages that came early. Owned by Process, used by exec/ under
// its lock (not thread-safe). After warm-up a loan costs no allocation. A loan fails only when the system has no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace isthmus::memory {

class Pool;

/// A loan; gives itself back when destroyed. Aligned to 64 bytes.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept;
  ~Block() { reset(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_}; }
  explicit operator bool() const { return data_ != nullptr; }
  /// Gives the memory back to its pool.
  void reset() {
    if (data_ != nullptr) give_back();
  }

 private:
  void give_back();
  friend class Pool;
  Block(Pool* pool, std::byte* data, size_t bytes) : pool_(pool), data_(data), bytes_(bytes) {}
  Pool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class Pool {
 public:
  struct Counters {
    uint64_t lent_bytes = 0;  ///< in loans now (rounded up to their size class)
    uint64_t idle_bytes = 0;  ///< kept for the next loan
    uint64_t peak_lent_bytes = 0;
    uint64_t system_allocations = 0;
  };

  /// Keeps at most `max_idle_bytes` for reuse; what comes back beyond that goes to the system.
  explicit Pool(size_t max_idle_bytes = size_t{256} << 20) : max_idle_bytes_(max_idle_bytes) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// At least `bytes` bytes (0 gives an empty block). Contents are undefined.
  Result<Block> lend(size_t bytes);
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  friend class Block;
  static constexpr int kClasses = 80;  ///< up to 192 TiB
  static int class_of(size_t bytes);
  static size_t class_bytes(int size_class);
  void take_back(std::byte* data, size_t bytes);

  size_t max_idle_bytes_;
  Counters counters_;
  std::array<std::vector<std::byte*>, kClasses> idle_;
};

}  // namespace isthmus::memory
