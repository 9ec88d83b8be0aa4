// SPDX-License-Identifier: Apache-2.0
// The short way of a small call: its plan's steps one after the other, as they were written down, on the spot. Where a step cannot go on
// (a message is not here yet) it is tried again when something has come; after a moment, or when anything unusual happens, the call
// becomes a Run, which goes on where this stands. Programs repeat their calls: what the last call was is kept, and a call like it is
// taken over by its pointers alone. On the wire the two look alike, so each rank decides for itself. Used by Engine, which has one;
// nothing here fails: what may fail is left to the Run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

  /// Takes the call over, with its number. False: it does not suit, it is a Run's; nothing has happened. The endpoint must be idle, and no
  /// other call on the short way.
  bool begin(Endpoint& endpoint, const Call& call);
  /// Takes the messages that came before the call. False: something else came, so that a Run must take over.
  bool take_early() { return endpoint_->early_frames == 0 || take_early_frames(); }
  enum class Outcome : uint8_t { done, waits, stuck };
  /// Goes on. `stuck`: a Run must take over.
  Outcome advance();
  /// The call is over, here at least.
  void end() {
    active_ = false;
    buffers_.release();
  }
  /// The endpoint goes.
  void forget(const Endpoint& endpoint) {
    if (endpoint_ == &endpoint) endpoint_ = nullptr;
  }
  /// Looks whether the message that the call waits for has come; true if anything has.
  bool glance();

  [[nodiscard]] bool active() const { return active_; }
  [[nodiscard]] Endpoint* endpoint() const { return endpoint_; }
  [[nodiscard]] const Call& call() const { return call_; }
  /// The time since the first time that this was asked.
  [[nodiscard]] TimeNs age_ns(TimeNs now) {
    if (begun_ns_ == 0) begun_ns_ = now;
    return now - begun_ns_;
  }

  /// True for a frame of this call.
  [[nodiscard]] bool concerns(const Endpoint& endpoint, const wire::FrameHeader& header) const {
    return active_ && &endpoint == endpoint_ && header.call_class == wire::CallClass::collective &&
           header.sequence == call_.signature.sequence;
  }
  /// The same of any frame.
  [[nodiscard]] bool concerns(transport::PeerId from, const wire::FrameHeader& header) const {
    return active_ && header.communicator == endpoint_->communicator && header.destination == endpoint_->rank &&
           header.source < endpoint_->ranks && endpoint_->flows[static_cast<size_t>(header.source)].peer == from &&
           concerns(*endpoint_, header);
  }
  /// True for the message that the call waits for.
  [[nodiscard]] bool awaits(transport::PeerId from, const wire::FrameHeader& header) const {
    if (!active_ || next_ >= moves_.size()) return false;
    const Move& move = moves_[next_];
    return move.flow != nullptr && header.key == key_ && header.source == move.step->peer && header.ordinal == move.step->ordinal &&
           move.step->receives() && header.type == wire::FrameType::data && header.length == move.bytes && move.flow->peer == from &&
           concerns(from, header) && messages_[move.inbound].data == nullptr;
  }
  /// Its payload.
  void take_awaited(const wire::FrameHeader& header, std::span<const std::byte> payload);
  /// Takes a frame of this call with its payload; false if it is not what this expects.
  bool take(const wire::FrameHeader& header, std::span<const std::byte> payload);
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
  [[nodiscard]] size_t steps_done() const { return next_; }
  [[nodiscard]] const Message& message(uint32_t inbound) const { return messages_[inbound]; }
  [[nodiscard]] Buffers& buffers() { return buffers_; }
  [[nodiscard]] uint64_t key() const { return key_; }

 private:
  /// A step of the call, as far as calls that are alike have it in common.
  struct Move {
    const plan::Step* step = nullptr;
    Flow* flow = nullptr;  ///< of its peer; null: a local step
    uint64_t bytes = 0;
    uint64_t src = 0, dst = 0;  ///< offsets in their regions
    uint32_t inbound = 0;       ///< of a message to come: its place in Program::recv_steps
  };

  [[nodiscard]] bool suits(const Endpoint& endpoint, const Call& call) const;
  [[nodiscard]] bool resembles(const Endpoint& endpoint, const Call& call) const {
    return endpoint_ == &endpoint && buffers_.are_of(call) && call_.kind_key == call.kind_key && call.kind_key != 0;
  }
  void prepare(Endpoint& endpoint, const Call& call);
  void work_out();
  bool take_early_frames();
  bool send(const Move& move);
  bool receive(const Move& move);
  void apply(const Move& move, const std::byte* message, uint32_t eager_bytes);
  [[nodiscard]] uint32_t inbound_of(const wire::FrameHeader& header) const;

  Core& core_;
  bool active_ = false;
  Endpoint* endpoint_ = nullptr;  ///< this and what follows is kept beyond the call: the next one is often like it
  Call call_;
  std::shared_ptr<const Program> program_;  ///< of the call
  Buffers buffers_;
  uint64_t key_ = 0;
  std::vector<Move> moves_;
  size_t next_ = 0;
  TimeNs begun_ns_ = 0;
  std::array<Message, kMostSteps> messages_{};  ///< by place in Program::recv_steps
  size_t used_bytes_ = 0;                       ///< of the inbox
  alignas(64) std::array<std::byte, kInboxBytes> inbox_;
};

}  // namespace isthmus::exec
