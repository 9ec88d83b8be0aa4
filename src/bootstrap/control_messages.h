// SPDX-License-Identifier: Apache-2.0
// The control plane's messages as bytes: a rank and what is said about, by or to it. Used by the two ends of control.h. Decoding fails
// (remote_error) on bytes that neither end writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/link.h"

namespace isthmus::bootstrap {

/// Link message types of the control plane; the rendezvous has those below 16.
enum class ControlType : uint8_t {
  heartbeat = 16,  ///< rank 0, nothing
  dead = 17,       ///< hub -> member: the rank, why
  abort = 18,      ///< member -> hub -> members: who, text
  left = 19,       ///< member -> hub -> members: who
  message = 20,    ///< member -> hub: to whom; hub -> member: from whom; the body
};

struct ControlMessage {
  ControlType type = ControlType::heartbeat;
  int32_t rank = 0;
  std::span<const std::byte> body;  ///< in the link's memory

  [[nodiscard]] std::string text() const { return {reinterpret_cast<const char*>(body.data()), body.size()}; }
};

/// The longest body of a link that carries control messages.
size_t max_control_body_bytes();
SharedBytes encode_control(int32_t rank, std::span<const std::byte> body);
Result<ControlMessage> decode_control(const Message& message, int32_t ranks);

}  // namespace isthmus::bootstrap
