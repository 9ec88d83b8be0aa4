// SPDX-License-Identifier: Apache-2.0
// A stream whose ends are proving to each other that they belong to the same job. Used by Dialer (who opened it) and Door (who
// accepted it). Fails when the other end proves nothing, closes, or speaks another protocol; deadlines are its owner's.
#pragma once

#include <memory>

#include "transport/interface.h"
#include "transport/tcp/readiness.h"
#include "wire/handshake.h"

namespace isthmus::transport {

class Greeting final : public Served {
 public:
  Greeting(std::unique_ptr<Stream> stream, wire::Handshake handshake, TimeNs began_at)
      : stream_(std::move(stream)), handshake_(std::move(handshake)), began_at_(began_at), moved_at_(began_at) {}
  ~Greeting() override { leave(); }
  Greeting(const Greeting&) = delete;
  Greeting& operator=(const Greeting&) = delete;

  bool serve(TimeNs now) override;
  [[nodiscard]] bool ready() const override;

  [[nodiscard]] bool done() const { return failure_.ok() && handshake_.done(); }
  [[nodiscard]] const Status& failure() const { return failure_; }
  /// The connection stands, but the peer may still think.
  [[nodiscard]] bool connected() const { return moved_bytes_; }
  [[nodiscard]] bool awaits_key() const { return handshake_.awaits_key(); }
  /// The peer has at least said a proper hello.
  [[nodiscard]] bool introduced() const { return handshake_.peer() != wire::Hello{}; }
  [[nodiscard]] const wire::Hello& peer() const { return handshake_.peer(); }
  [[nodiscard]] Address peer_address() const { return stream_->peer_address(); }
  [[nodiscard]] TimeNs began_at() const { return began_at_; }
  /// When bytes last moved, or began_at().
  [[nodiscard]] TimeNs moved_at() const { return moved_at_; }
  /// The proven stream, once done(). The greeting must have been forgotten by its Readiness or die right after.
  std::unique_ptr<Stream> take() { return std::move(stream_); }

 private:
  Result<bool> advance();

  std::unique_ptr<Stream> stream_;
  wire::Handshake handshake_;
  TimeNs began_at_, moved_at_;
  bool moved_bytes_ = false;
  Status failure_;
};

}  // namespace isthmus::transport
