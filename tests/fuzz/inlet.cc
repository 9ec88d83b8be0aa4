// SPDX-License-Identifier: Apache-2.0
// Frames out of a peer's stream: however it is cut, payloads arrive whole, in order, and never outside the memory given for them.
#include "transport/tcp/inlet.h"

#include "stream.h"

namespace isthmus::fuzz {

using namespace transport;

namespace {

constexpr uint64_t kMaxPayloadBytes = 1 << 16;

class NoNetwork final : public Network {
 public:
  Result<std::unique_ptr<Listener>> listen(const Address&) override { return system_error("no network"); }
  Result<std::unique_ptr<Stream>> connect(const Address&, const StreamOptions&) override { return system_error("no network"); }
  Result<std::vector<Address>> local_addresses() override { return std::vector<Address>{}; }
};

/// Gives exact memory for every second frame and takes the others in pieces.
class CheckingSink final : public FrameSink {
 public:
  std::span<std::byte> on_frame(PeerId, const wire::FrameHeader& header) override {
    promise(expected_ == arrived_, "a frame begins when the one before is complete");
    expected_ = wire::payload_bytes(header);
    arrived_ = 0;
    promise(expected_ <= kMaxPayloadBytes, "no payload is longer than allowed");
    if (expected_ == 0 || header.ordinal % 2 == 0) return {};
    landing_.assign(expected_, std::byte{0});
    return landing_;
  }
  void on_landed(PeerId, const wire::FrameHeader&, uint64_t offset, uint64_t bytes) override { advance(offset, bytes); }
  void on_bytes(PeerId, const wire::FrameHeader&, uint64_t offset, std::span<const std::byte> bytes) override {
    advance(offset, bytes.size());
  }
  void on_sent(SendToken) override {}
  void on_peer_failed(PeerId, const Status&) override {}

 private:
  void advance(uint64_t offset, uint64_t bytes) {
    promise(offset == arrived_ && bytes <= expected_ - arrived_, "payloads arrive in order and no further");
    arrived_ += bytes;
  }
  uint64_t expected_ = 0, arrived_ = 0;
  Bytes landing_;
};

}  // namespace

void run(Input input) {
  const size_t piece = 1 + take_byte(input) * size_t{64};
  NoNetwork network;
  CheckingSink sink;
  TcpContext context{.network = network, .sink = sink, .crypto = Crypto::none(), .options = {.max_payload_bytes = kMaxPayloadBytes}};
  Inlet inlet(context, 1, 0, std::make_unique<InputStream>(input, piece));
  promise(inlet.open().ok(), "a stream without a descriptor can be watched");
  for (size_t turn = 0; !inlet.failed(); ++turn) {
    promise(turn <= input.size() + 1, "every turn moves something, or ends");
    context.readiness.collect(0);
    context.readiness.take_turns(0);
  }
  promise(context.failures.size() == 1, "a stream ends once");
}

std::vector<Bytes> seeds() {
  Bytes said;
  for (uint32_t ordinal = 0; ordinal < 4; ++ordinal) {
    const wire::FrameHeader header{.communicator = 1, .source = 0, .destination = 1, .ordinal = ordinal, .length = ordinal * 100};
    const size_t at = said.size();
    said.resize(at + wire::FrameHeader::kBytes + header.length);
    wire::encode(header, std::span(said).subspan(at).first<wire::FrameHeader::kBytes>());
  }
  return {tagged(0, said), tagged(1, said), tagged(255, said)};
}

}  // namespace isthmus::fuzz
