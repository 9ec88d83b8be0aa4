// SPDX-License-Identifier: Apache-2.0
// control_messages.h. Pure.
#include "bootstrap/control_messages.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "bootstrap/control.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kRankBytes = 4;

size_t limit_of(ControlType type) {
  switch (type) {
    case ControlType::heartbeat:
    case ControlType::left:
      return 0;
    case ControlType::dead:
    case ControlType::abort:
      return kMaxControlTextBytes;
    case ControlType::message:
      break;
  }
  return kMaxControlBytes;
}

}  // namespace

size_t max_control_body_bytes() { return kRankBytes + kMaxControlBytes; }

SharedBytes encode_control(int32_t rank, std::span<const std::byte> body) {
  auto bytes = std::make_shared<std::vector<std::byte>>(kRankBytes + body.size());
  Writer(*bytes).i32(rank).bytes(body);
  return bytes;
}

Result<ControlMessage> decode_control(const Message& message, int32_t ranks) {
  const auto type = static_cast<ControlType>(message.type);
  if (type < ControlType::heartbeat || type > ControlType::message) {
    return remote_error(fmt::format("control message of unknown type {}", message.type));
  }
  Reader reader(message.body);
  const int32_t rank = reader.i32();
  const auto body = reader.bytes(reader.remaining());
  if (!reader.ok() || rank < 0 || rank >= ranks || body.size() > limit_of(type)) {
    return remote_error(fmt::format("malformed control message of type {}", message.type));
  }
  return ControlMessage{.type = type, .rank = rank, .body = body};
}

}  // namespace isthmus::bootstrap
