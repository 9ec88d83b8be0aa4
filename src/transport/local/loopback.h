// SPDX-License-Identifier: Apache-2.0
// The transport between ranks of one process: frames are queued by address and delivered by the next poll() with at most one
// copy. Owned by exec's Process; used by one thread at a time. Fails only when asked to reach a peer that is not this process.
#pragma once

#include "base/fifo.h"
#include "transport/interface.h"

namespace isthmus::transport {

class Loopback final : public Transport {
 public:
  /// `sink` must outlive the transport.
  explicit Loopback(FrameSink& sink) : sink_(sink) {}

  [[nodiscard]] std::string_view name() const override { return "loopback"; }
  [[nodiscard]] std::vector<std::byte> local_blob() const override { return {}; }
  /// There is one peer: this process. Naming it again under the same id is fine.
  Status add_peer(PeerId peer, const PeerInfo& info) override;
  void forget_key(uint64_t) override {}

  /// Never delivers at once, so callbacks never nest; allocates only while the queue is longer than it ever was.
  Status send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) override;
  /// Always true: one address space.
  bool offer(PeerId peer, std::span<const std::byte> memory, wire::RemoteSpan& remote) override;
  /// The memory itself; `bounce` is never used and may be empty.
  Result<std::span<const std::byte>> view(PeerId peer, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                          std::span<std::byte> bounce) override;

  void abandon(uint64_t communicator, int32_t rank) override;

  /// Delivers what was queued before the call; callbacks may send().
  bool poll(TimeNs now) override;
  bool arm(std::vector<Wait>& waits) override;
  void disarm() override {}

 private:
  struct Queued {
    wire::FrameHeader header;
    std::span<const std::byte> payload;
    SendToken token = kNoToken;
    bool abandoned = false;  ///< by its sender or its receiver
  };
  void deliver(Queued& frame);

  FrameSink& sink_;
  PeerId self_ = 0;
  bool known_ = false;
  Fifo<Queued> queue_;
  Queued* delivering_ = nullptr;  ///< what callbacks may abandon
};

}  // namespace isthmus::transport
