// SPDX-License-Identifier: Apache-2.0
// The receiving end of one stream that a peer has opened to us: cuts the bytes into frames and puts payloads where the sink says,
// large ones straight from the stream. Owned by Tcp's peer. Fails at the stream's end and at the first byte that is no frame.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/tcp/context.h"
#include "wire/frame.h"

namespace isthmus::transport {

class Inlet final : public Served {
 public:
  Inlet(TcpContext& context, PeerId peer, uint16_t index, std::unique_ptr<Stream> stream)
      : context_(context), peer_(peer), index_(index), stream_(std::move(stream)) {}
  ~Inlet() override { leave(); }
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;

  Status open() { return context_.readiness.watch(*this, stream_->fd()); }
  [[nodiscard]] uint16_t index() const { return index_; }

  bool serve(TimeNs now) override;
  [[nodiscard]] bool ready() const override { return !failed_ && readable_; }
  [[nodiscard]] bool failed() const { return failed_; }

  /// As Transport::abandon, for frames whose destination is `rank`.
  void abandon(uint64_t communicator, int32_t rank);

 private:
  void fail(const Status& why);
  [[nodiscard]] std::span<std::byte> room();
  void consume(std::span<const std::byte> bytes);
  size_t take_header(std::span<const std::byte> bytes);
  void begin_frame();
  /// The next `piece` of the payload is here: in place already, or to be put there.
  void take_payload(std::span<const std::byte> piece, bool in_place);

  TcpContext& context_;
  PeerId peer_;
  uint16_t index_;
  std::unique_ptr<Stream> stream_;
  std::array<std::byte, wire::FrameHeader::kBytes> header_bytes_{};
  size_t header_got_ = 0;
  wire::FrameHeader header_;
  uint64_t left_ = 0;    ///< payload bytes of this frame still to come
  uint64_t offset_ = 0;  ///< payload bytes of this frame that came
  std::span<std::byte> landing_;
  bool discard_ = false;
  bool failed_ = false;
};

}  // namespace isthmus::transport
