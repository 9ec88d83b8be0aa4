// SPDX-License-Identifier: Apache-2.0
// Link: typed, length-bounded messages over a proven stream. Carries the rendezvous first and the control plane after it. Never
// blocks. Fails when the peer closes, breaks, or announces more than allowed; a failed link stays failed and can only be dropped.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/interface.h"
#include "wire/handshake.h"

namespace isthmus::bootstrap {

/// Writes and reads what the handshake wants to, as far as the stream goes now. True once it is done; nothing beyond the
/// handshake's bytes is read.
Result<bool> advance(wire::Handshake& handshake, transport::Stream& stream);

struct Message {
  uint8_t type = 0;
  std::span<const std::byte> body;  ///< in the link, until its next receive()
};

/// One body queued on many links.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

class Link {
 public:
  static constexpr size_t kHeaderBytes = 8;  ///< length 4, type 1, zeros 3

  /// `max_body_bytes` bounds what the peer may announce; memory grows only as bytes arrive.
  Link(std::unique_ptr<transport::Stream> stream, size_t max_body_bytes) : stream_(std::move(stream)), max_body_bytes_(max_body_bytes) {}

  void set_max_body_bytes(size_t max_body_bytes) { max_body_bytes_ = max_body_bytes; }

  /// Queues a message; flush() sends it.
  void send(uint8_t type, std::span<const std::byte> body);
  void send(uint8_t type, SharedBytes body);
  /// Writes as much of the queue as goes now.
  Status flush();
  [[nodiscard]] size_t unsent_bytes() const { return unsent_bytes_; }

  /// The next whole message, or nothing yet.
  Result<std::optional<Message>> receive();

  [[nodiscard]] transport::Address peer_address() const { return stream_->peer_address(); }
  /// Adds the stream's descriptor, if it has one, for reading and if need be for writing too.
  void waits(std::vector<transport::Wait>& waits) const;

 private:
  using Header = std::array<std::byte, kHeaderBytes>;
  struct Outgoing {
    Header header;
    SharedBytes body;
    [[nodiscard]] size_t bytes() const { return header.size() + body->size(); }
  };

  Result<std::optional<Message>> next_message();
  Result<bool> read_header();
  Result<bool> read_body();

  std::unique_ptr<transport::Stream> stream_;
  size_t max_body_bytes_;

  std::deque<Outgoing> queue_;
  size_t front_sent_ = 0;  ///< bytes of the first message already written
  size_t unsent_bytes_ = 0;

  Header header_{};
  size_t header_bytes_ = 0;
  uint8_t type_ = 0;
  size_t body_bytes_ = 0;  ///< as announced
  size_t received_ = 0;    ///< of the body
  std::vector<std::byte> body_;
  Status failure_;  ///< of receive()
};

/// Adds a stream's or listener's descriptor unless it has none (the simulator's).
void add_wait(std::vector<transport::Wait>& waits, int fd, bool write);

}  // namespace isthmus::bootstrap
