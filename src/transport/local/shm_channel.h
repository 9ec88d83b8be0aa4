// SPDX-License-Identifier: Apache-2.0
// Frames to and from one process of this host over a pair of rings: cuts payloads into pieces, puts frames together again, wakes the
// other side. Owned by Shm, one per peer. Until open() frames wait in the queue. Fails when the peer breaks the ring's rules.
#pragma once

#include <cstdint>
#include <span>

#include "base/fd.h"
#include "base/fifo.h"
#include "base/status.h"
#include "transport/interface.h"
#include "transport/local/shm_ring.h"

namespace isthmus::transport {

class ShmChannel {
 public:
  ShmChannel(PeerId peer, FrameSink& sink, uint64_t max_payload_bytes) : peer_(peer), sink_(sink), max_payload_bytes_(max_payload_bytes) {}

  /// Starts to move frames; `creator` tells which ring is ours. `doorbell` is the peer's eventfd.
  void open(RingPair rings, bool creator, Fd doorbell);
  /// Drops the rings and all frames that wait; their payloads are not read again.
  void close();

  /// Large payloads travel in pieces of this size: large enough to hide the hand-over, small enough that a few of them stay in the L2
  /// caches of both sides while one copies in and the other out.
  static constexpr uint64_t kPieceBytes = 16 << 10;

  /// Writes the frame, which is one piece, if that can be done at once.
  bool try_send(const wire::FrameHeader& header, std::span<const std::byte> payload);
  /// Writes the frame at once as far as there is room, the rest in poll().
  void send(const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token);
  /// Drops what waits from `rank` of `communicator` and what still arrives for it. A frame that is partly in the ring is completed
  /// with zeros, so that the next one is understood.
  void abandon(uint64_t communicator, int32_t rank);
  /// Moves frames both ways, incoming ones up to about a ring's worth. True if anything moved.
  bool poll();
  /// Takes in one record, if there is one. True if there was.
  bool glance();
  /// Before blocking: asks the peer to ring our doorbell. False if there is something to do.
  bool arm();
  void disarm();

  /// There are frames that are not, or not wholly, in the ring.
  [[nodiscard]] bool waiting() const { return !queue_.empty(); }
  /// Nothing is left to be read.
  [[nodiscard]] bool drained() const { return !open_ || reader_.empty(); }
  /// Not ok once the peer has broken the rules; poll() then does nothing.
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  struct Outgoing {
    wire::FrameHeader header;
    std::span<const std::byte> payload;
    SendToken token = kNoToken;
    uint64_t written = 0;  // payload bytes
    bool begun = false;
    bool abandoned = false;
  };
  struct Incoming {
    wire::FrameHeader header;
    std::span<std::byte> landing;
    uint64_t bytes = 0;
    uint64_t arrived = 0;
    bool abandoned = false;
  };

  bool write(Outgoing& frame);
  bool send_queued();
  bool receive();
  uint64_t receive_record();
  bool accept(const RingReader::Record& record);
  bool begin_frame(const RingReader::Record& record);
  void deliver(std::span<const std::byte> payload);
  void ring_doorbell();
  bool broken(std::string_view how);

  const PeerId peer_;
  FrameSink& sink_;
  const uint64_t max_payload_bytes_;
  bool open_ = false;
  uint64_t ring_bytes_ = 0;
  RingWriter writer_;
  RingReader reader_;
  Fifo<Outgoing> queue_;
  Incoming incoming_;
  Status failure_;
  RingPair rings_;
  Fd doorbell_;
};

}  // namespace isthmus::transport
