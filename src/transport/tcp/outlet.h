// SPDX-License-Identifier: Apache-2.0
// The sending end of one stream to a peer: a queue of frames, small ones gathered and copied, large ones written from where they
// lie. Frames that carry no message go first: a grant that waits behind data keeps the other direction idle. Owned by Tcp's peer;
// frames may be queued before the stream is there. Fails when the stream does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/fifo.h"
#include "transport/tcp/context.h"
#include "wire/frame.h"

namespace isthmus::transport {

class Outlet final : public Served {
 public:
  Outlet(TcpContext& context, PeerId peer) : context_(context), peer_(peer) {}
  ~Outlet() override { leave(); }
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void push(const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token);
  /// Starts sending what is queued over a proven stream.
  Status open(std::unique_ptr<Stream> stream);
  [[nodiscard]] bool is_open() const { return stream_ != nullptr; }

  /// Also notices that the peer has closed: nothing ever comes back on this stream.
  bool serve(TimeNs now) override;
  [[nodiscard]] bool ready() const override;
  /// Something waits for the stream to take it.
  [[nodiscard]] bool busy() const { return staged() > 0 || body_.left > 0 || !queue_.empty() || !urgent_.empty(); }
  [[nodiscard]] bool failed() const { return failed_; }

  /// As Transport::abandon, for frames whose source is `rank`.
  void abandon(uint64_t communicator, int32_t rank);
  /// Drops the stream and all that is queued.
  void close();

 private:
  struct Frame {
    wire::FrameHeader header;
    std::span<const std::byte> payload;
    SendToken token = kNoToken;
  };
  /// The large payload that is being written; null data: zeros in place of memory that was taken back.
  struct Body {
    const std::byte* data = nullptr;
    uint64_t left = 0;
    SendToken token = kNoToken;
    uint64_t communicator = 0;
    int32_t source = -1;
  };

  void fail(const Status& why);
  bool expect_nothing();
  bool write_some(uint64_t& budget);
  void gather();
  void stage(const Frame& frame);
  void took(size_t bytes);
  void finish(SendToken token);
  [[nodiscard]] size_t staged() const { return stage_.size() - stage_sent_; }
  [[nodiscard]] std::span<const std::byte> body_piece(uint64_t limit) const;

  TcpContext& context_;
  PeerId peer_;
  std::unique_ptr<Stream> stream_;
  Fifo<Frame> queue_;
  Fifo<wire::FrameHeader> urgent_;  ///< frames that carry no message
  std::vector<std::byte> stage_;    ///< headers and small payloads, ready to be written before the body
  size_t stage_sent_ = 0;
  Body body_;
  bool failed_ = false;
};

}  // namespace isthmus::transport
