// SPDX-License-Identifier: Apache-2.0
// The short way of a small call: its plan's steps one after the other, as they were written down, on the spot. Where a step cannot go on
// (a message is not here yet) it is tried again at the next poll; after a moment, or when anything unusual happens, the call becomes
// a Run, which goes on where this stands. On the wire the two look alike, so each rank decides for itself. Used by Engine, which has one;
// nothing here fails: what may fail is left to the Run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "exec/buffers.h"
#include "exec/call.h"
#include "exec/core.h"
#include "exec/endpoint.h"

namespace isthmus::exec {

class Quick {
 public:
  static constexpr uint64_t kMostBytes = 4 << 10;    ///< of one rank's block
  static constexpr uint64_t kInboxBytes = 16 << 10;  ///< of all ranks' blocks, so of any message
  static constexpr size_t kMostSteps = 64;
  /// So long the short way waits before it gives up.
  static constexpr TimeNs kPatienceNs = 50 * kMicrosecondNs;

  explicit Quick(Core& core) : core_(core), buffers_(core) {}

  /// True if the call's size and plan suit. The endpoint must be idle, and no other call on the short way.
  [[nodiscard]] static bool suits(const Endpoint& endpoint, const Call& call);
  /// Takes the call over, with its number (and all else: it is moved from). False: it is a Run's, nothing has happened.
  bool begin(Endpoint& endpoint, Call& call);
  /// Takes the messages that came before the call. False: something else came, so that a Run must take over.
  bool take_early();
  enum class Outcome : uint8_t { done, waits, stuck };
  /// Goes on. `stuck`: a Run must take over.
  Outcome advance();
  /// Forgets the call.
  void end();

  [[nodiscard]] bool active() const { return endpoint_ != nullptr; }
  [[nodiscard]] Endpoint* endpoint() const { return endpoint_; }
  [[nodiscard]] const Call& call() const { return call_; }
  /// The time since the first time that this was asked.
  [[nodiscard]] TimeNs age_ns(TimeNs now) {
    if (begun_ns_ == 0) begun_ns_ = now;
    return now - begun_ns_;
  }

  /// True for a frame of this call.
  [[nodiscard]] bool concerns(const Endpoint& endpoint, const wire::FrameHeader& header) const {
    return &endpoint == endpoint_ && header.call_class == wire::CallClass::collective && header.sequence == call_.signature.sequence;
  }
  /// Where the payload of such a frame goes; empty if it is not what this expects.
  std::span<std::byte> on_frame(const wire::FrameHeader& header);
  void on_landed(const wire::FrameHeader& header, uint64_t bytes);

  // For the Run that takes over.
  struct Message {
    const std::byte* data = nullptr;  ///< null: nothing has come
    uint32_t bytes = 0;
    uint32_t arrived = 0;
    uint32_t eager_bytes = 0;
  };
  [[nodiscard]] uint32_t steps_done() const { return next_; }
  [[nodiscard]] const Message& message(uint32_t inbound) const { return messages_[inbound]; }
  [[nodiscard]] Buffers& buffers() { return buffers_; }
  [[nodiscard]] uint64_t key() const { return key_; }

 private:
  bool send(const plan::Step& step);
  bool receive(const plan::Step& step, uint32_t inbound);

  Core& core_;
  Endpoint* endpoint_ = nullptr;
  Call call_;
  std::shared_ptr<const Program> program_;  ///< kept beyond the call: the next one is often the same
  Buffers buffers_;
  uint64_t key_ = 0;
  uint32_t next_ = 0;
  TimeNs begun_ns_ = 0;
  std::array<Message, kMostSteps> messages_{};  ///< by place in Program::recv_steps
  size_t used_bytes_ = 0;                       ///< of the inbox
  alignas(64) std::array<std::byte, kInboxBytes> inbox_;
};

}  // namespace isthmus::exec
