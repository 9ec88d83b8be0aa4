// SPDX-License-Identifier: Apache-2.0
// Little-endian reading and writing of fixed memory, with every access bounds-checked. Used wherever bytes come from or go to
// another process: wire/, bootstrap/, plan files. Neither class throws or allocates: a step beyond the end makes the object
// "failed" for good, reads then give zeros and writes do nothing, so that a parser reads all fields and asks once: if (!reader.ok()).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace isthmus {

/// The bytes of a text, for hashing and sending.
inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  uint8_t u8() { return integer<uint8_t>(); }
  uint16_t u16() { return integer<uint16_t>(); }
  uint32_t u32() { return integer<uint32_t>(); }
  uint64_t u64() { return integer<uint64_t>(); }
  int32_t i32() { return static_cast<int32_t>(integer<uint32_t>()); }
  int64_t i64() { return static_cast<int64_t>(integer<uint64_t>()); }

  /// The next `count` bytes where they lie; empty (and failed) if there are fewer.
  std::span<const std::byte> bytes(size_t count) {
    if (count > rest_.size()) fail();
    if (failed_) return {};
    auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// Fills `out` (any trivially copyable byte container, e.g. std::array<uint8_t, 16>); zeros on failure.
  template <typename ByteArray>
  void fill(ByteArray& out) {
    static_assert(sizeof(out[0]) == 1);
    auto from = bytes(out.size());
    if (failed_) {
      std::memset(out.data(), 0, out.size());
    } else if (!from.empty()) {
      std::memcpy(out.data(), from.data(), from.size());
    }
  }
  /// A u32 length and that many bytes, at most `max_bytes`; more is a failure even if they are there.
  std::span<const std::byte> sized_bytes(size_t max_bytes) {
    const size_t count = u32();
    if (count > max_bytes) fail();
    return bytes(failed_ ? 0 : count);
  }
  std::string sized_text(size_t max_bytes) {
    auto from = sized_bytes(max_bytes);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

  [[nodiscard]] size_t remaining() const { return failed_ ? 0 : rest_.size(); }
  [[nodiscard]] bool ok() const { return !failed_; }
  /// Everything was read and nothing was missing: what a parser of a whole message returns.
  [[nodiscard]] bool finished() const { return !failed_ && rest_.empty(); }
  /// For the parser: what was read makes no sense.
  void fail() { failed_ = true; }

 private:
  template <typename T>
  T integer() {
    auto from = bytes(sizeof(T));
    T value = 0;
    for (size_t i = from.size(); i-- > 0;) value = static_cast<T>(uint64_t{value} << 8 | std::to_integer<uint64_t>(from[i]));
    return value;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}

  Writer& u8(uint8_t value) { return integer(value); }
  Writer& u16(uint16_t value) { return integer(value); }
  Writer& u32(uint32_t value) { return integer(value); }
  Writer& u64(uint64_t value) { return integer(value); }
  Writer& i32(int32_t value) { return integer(static_cast<uint32_t>(value)); }
  Writer& i64(int64_t value) { return integer(static_cast<uint64_t>(value)); }

  Writer& bytes(std::span<const std::byte> from) {
    if (from.size() > out_.size() - at_) failed_ = true;
    if (failed_ || from.empty()) return *this;
    std::memcpy(out_.data() + at_, from.data(), from.size());
    at_ += from.size();
    return *this;
  }
  /// Any container of single bytes, e.g. std::array<uint8_t, 16>.
  template <typename ByteArray>
  Writer& fill(const ByteArray& from) {
    static_assert(sizeof(from[0]) == 1);
    return bytes(std::as_bytes(std::span(from.data(), from.size())));
  }
  /// A u32 length and the bytes.
  Writer& sized_bytes(std::span<const std::byte> from) { return u32(static_cast<uint32_t>(from.size())).bytes(from); }
  Writer& sized_text(std::string_view text) { return sized_bytes(as_bytes(text)); }

  [[nodiscard]] size_t written() const { return at_; }
  [[nodiscard]] bool ok() const { return !failed_; }

 private:
  template <typename T>
  Writer& integer(T value) {
    std::byte buffer[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) buffer[i] = static_cast<std::byte>(uint64_t{value} >> (8 * i));
    return bytes(buffer);
  }

  std::span<std::byte> out_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace isthmus
