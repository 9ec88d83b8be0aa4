// SPDX-License-Identifier: Apache-2.0
// link.h.
#include "bootstrap/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kReadBytes = 64 << 10;  // grow a body by at most this before its bytes are there

}  // namespace

Result<bool> advance(wire::Handshake& handshake, transport::Stream& stream) {
  std::array<std::byte, 128> buffer;
  while (!handshake.done()) {
    size_t moved = 0;
    if (const auto output = handshake.output(); !output.empty()) {
      ISTHMUS_ASSIGN(moved, stream.write(output));
      handshake.sent(moved);
    } else {
      ISTHMUS_ASSIGN(moved, stream.read(std::span(buffer).first(std::min(buffer.size(), handshake.wanted()))));
      ISTHMUS_TRY(handshake.input(std::span(buffer).first(moved)));
    }
    if (moved == 0) return false;
  }
  return true;
}

void Link::send(uint8_t type, std::span<const std::byte> body) {
  send(type, std::make_shared<const std::vector<std::byte>>(body.begin(), body.end()));
}

void Link::send(uint8_t type, SharedBytes body) {
  Outgoing message{.header = {}, .body = std::move(body)};
  Writer(message.header).u32(static_cast<uint32_t>(message.body->size())).u8(type);
  unsent_bytes_ += message.bytes();
  queue_.push_back(std::move(message));
}

Status Link::flush() {
  while (!queue_.empty()) {
    const Outgoing& front = queue_.front();
    const size_t of_header = std::min(front_sent_, front.header.size());
    ISTHMUS_ASSIGN(const size_t written,
                   stream_->write2(std::span(front.header).subspan(of_header), std::span(*front.body).subspan(front_sent_ - of_header)));
    if (written == 0) break;
    front_sent_ += written;
    unsent_bytes_ -= written;
    if (front_sent_ < front.bytes()) continue;
    front_sent_ = 0;
    queue_.pop_front();
  }
  return {};
}

Result<std::optional<Message>> Link::receive() {
  if (!failure_.ok()) return failure_;
  auto message = next_message();
  if (!message.ok()) failure_ = message.status();
  return message;
}

Result<std::optional<Message>> Link::next_message() {
  if (header_bytes_ < header_.size()) {
    ISTHMUS_ASSIGN(const bool complete, read_header());
    if (!complete) return std::optional<Message>();
  }
  ISTHMUS_ASSIGN(const bool complete, read_body());
  if (!complete) return std::optional<Message>();
  header_bytes_ = 0;
  return std::optional<Message>(Message{.type = type_, .body = std::span(body_).first(body_bytes_)});
}

Result<bool> Link::read_header() {
  ISTHMUS_ASSIGN(const size_t got, stream_->read(std::span(header_).subspan(header_bytes_)));
  header_bytes_ += got;
  if (header_bytes_ < header_.size()) return false;
  Reader reader(header_);
  body_bytes_ = reader.u32();
  type_ = reader.u8();
  const bool clean = reader.u16() == 0 && reader.u8() == 0;
  if (!clean || body_bytes_ > max_body_bytes_) {
    return remote_error(
        fmt::format("{} announces a message of {} bytes (limit {})", transport::to_string(peer_address()), body_bytes_, max_body_bytes_));
  }
  received_ = 0;
  return true;
}

Result<bool> Link::read_body() {
  while (received_ < body_bytes_) {
    const size_t piece = std::min(body_bytes_ - received_, kReadBytes);
    if (body_.size() < received_ + piece) body_.resize(received_ + piece);
    ISTHMUS_ASSIGN(const size_t got, stream_->read(std::span(body_).subspan(received_, piece)));
    if (got == 0) return false;
    received_ += got;
  }
  return true;
}

void Link::waits(std::vector<transport::Wait>& waits) const { add_wait(waits, stream_->fd(), !queue_.empty() || stream_->wants_write()); }

void add_wait(std::vector<transport::Wait>& waits, int fd, bool write) {
  if (fd >= 0) waits.push_back({.fd = fd, .write = write});
}

}  // namespace isthmus::bootstrap
