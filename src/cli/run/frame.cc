// SPDX-License-Identifier: Apache-2.0
// Frames between `isthmus run` and its nodes (see frame.h). Numbers are little-endian.
#include "cli/run/frame.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>

namespace isthmus::cli {
namespace {

constexpr size_t kHeaderBytes = 12;

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
}

uint32_t get_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t at = 0; at < 4; ++at) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at])) << (8 * at);
  return value;
}

void make_nonblocking(const Fd& fd) { fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

}  // namespace

std::string encode(const Frame& frame) {
  std::string bytes;
  bytes.reserve(kHeaderBytes + frame.payload.size());
  put_u32(bytes, static_cast<uint32_t>(frame.kind));
  put_u32(bytes, static_cast<uint32_t>(frame.rank));
  put_u32(bytes, static_cast<uint32_t>(frame.payload.size()));
  return bytes + frame.payload;
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!hello_.empty()) {
    const size_t at = buffer_.find(hello_);
    if (at == std::string::npos) return std::optional<Frame>();
    buffer_.erase(0, at + hello_.size());
    hello_ = {};
  }
  const std::string_view rest = std::string_view(buffer_).substr(read_);
  if (rest.size() < kHeaderBytes) return std::optional<Frame>();
  const uint32_t kind = get_u32(rest);
  const uint32_t length = get_u32(rest.substr(8));
  if (kind < static_cast<uint32_t>(FrameKind::start) || kind > static_cast<uint32_t>(FrameKind::failed) || length > kMaxPayload) {
    return system_error(fmt::format("what arrived is no frame of isthmus run (kind {}, length {})", kind, length));
  }
  if (rest.size() < kHeaderBytes + length) return std::optional<Frame>();
  Frame frame = {.kind = static_cast<FrameKind>(kind),
                 .rank = static_cast<int32_t>(get_u32(rest.substr(4))),
                 .payload = std::string(rest.substr(kHeaderBytes, length))};
  read_ += kHeaderBytes + length;
  if (read_ == buffer_.size() || read_ > kMaxPayload) {
    buffer_.erase(0, read_);
    read_ = 0;
  }
  return std::optional<Frame>(std::move(frame));
}

Link::Link(Fd in, Fd out, std::string_view hello) : in_(std::move(in)), out_(std::move(out)), reader_(hello) {
  make_nonblocking(in_);
  make_nonblocking(out_);
}

bool Link::send(const Frame& frame) {
  pending_ += encode(frame);
  return flush();
}

bool Link::send_hello() {
  pending_ += kNodeHello;
  return flush();
}

bool Link::flush() {
  size_t done = 0;
  bool alive = true;
  while (done < pending_.size()) {
    const ssize_t wrote = ::write(out_.get(), pending_.data() + done, pending_.size() - done);
    if (wrote > 0) {
      done += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      alive = errno == EAGAIN;
      break;
    }
  }
  pending_.erase(0, done);
  return alive;
}

bool Link::fill() {
  std::array<char, 65536> chunk;
  while (true) {
    const ssize_t got = ::read(in_.get(), chunk.data(), chunk.size());
    if (got > 0) {
      reader_.feed({chunk.data(), static_cast<size_t>(got)});
      if (static_cast<size_t>(got) < chunk.size()) return true;
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

}  // namespace isthmus::cli
