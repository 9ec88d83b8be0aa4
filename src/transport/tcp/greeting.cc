// SPDX-License-Identifier: Apache-2.0
// Moves a handshake's bytes; never reads beyond the handshake, because frames follow it.
#include "transport/tcp/greeting.h"

#include <algorithm>
#include <array>

namespace isthmus::transport {

bool Greeting::serve(TimeNs now) {
  bool moved = false;
  while (failure_.ok() && !handshake_.done()) {
    const Result<bool> step = advance();
    if (!step.ok()) failure_ = step.status();
    moved |= !step.ok() || *step;
    if (!step.ok() || !*step) break;
  }
  if (moved) {
    moved_bytes_ = true;
    moved_at_ = now;
  }
  return moved;
}

bool Greeting::ready() const {
  if (!failure_.ok() || handshake_.done()) return false;
  return handshake_.output().empty() ? readable_ && handshake_.wanted() > 0 : writable_;
}

/// One write or one read; false when the stream or the key has to come first.
Result<bool> Greeting::advance() {
  if (const auto output = handshake_.output(); !output.empty()) {
    ISTHMUS_ASSIGN(const size_t sent, stream_->write(output));
    handshake_.sent(sent);
    writable_ = sent == output.size();
    return sent > 0;
  }
  std::array<std::byte, 128> buffer;
  const size_t wanted = std::min(handshake_.wanted(), buffer.size());
  if (wanted == 0) {
    ISTHMUS_TRY(handshake_.input({}));  // asks for the key again
    return !handshake_.awaits_key();
  }
  ISTHMUS_ASSIGN(const size_t got, stream_->read(std::span(buffer).first(wanted)));
  readable_ = got == wanted || hung_up_;
  ISTHMUS_TRY(handshake_.input(std::span(buffer).first(got)));
  return got > 0;
}

}  // namespace isthmus::transport
