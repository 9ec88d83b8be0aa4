// SPDX-License-Identifier: Apache-2.0
// What `isthmus run` and its node on each host say to each other over a pipe: frames of a kind, a rank and a payload. The codec is
// pure; Link adds the descriptors. A node on another host is reached through a login command that may print a greeting first, so a
// reader skips everything before the node's own hello. Reading fails on frames that no node sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace isthmus::cli {

enum class FrameKind : uint32_t {
  // launcher to node
  start = 1,  ///< payload: the order, as JSON (node.h)
  answer,     ///< to a rank's exchange, as it is written to the rank's socket
  signal,     ///< payload: the number in decimal; to all ranks
  // node to launcher
  request,  ///< a rank's block for the exchange
  left,     ///< a rank closed its exchange socket
  output,   ///< payload: bytes that a rank wrote to its standard output
  errors,   ///< ... to its standard error
  started,  ///< payload: the rank's process id in decimal
  exited,   ///< payload: the wait status in decimal
  failed,   ///< payload: why the rank (-1: the node) could not be started
};

struct Frame {
  FrameKind kind = FrameKind::start;
  int32_t rank = -1;
  std::string payload;
};

/// What a node writes before its first frame.
inline constexpr std::string_view kNodeHello = "\nisthmus run-node 1\n";
inline constexpr size_t kMaxPayload = 64 << 20;

std::string encode(const Frame& frame);

/// Bytes in, frames out.
class FrameReader {
 public:
  /// With a hello, everything up to and including it is skipped.
  explicit FrameReader(std::string_view hello = {}) : hello_(hello) {}
  void feed(std::string_view bytes) { buffer_ += bytes; }
  /// The next whole frame, or nothing yet.
  Result<std::optional<Frame>> next();
  /// What came instead of a hello, for messages.
  [[nodiscard]] std::string_view greeting() const { return hello_.empty() ? std::string_view() : std::string_view(buffer_); }

 private:
  std::string_view hello_;  ///< "" once it has been seen
  std::string buffer_;
  size_t read_ = 0;
};

/// One end of the conversation. Writing never blocks: what the pipe does not take waits in memory until flush().
class Link {
 public:
  Link(Fd in, Fd out, std::string_view hello = {});

  [[nodiscard]] int in() const { return in_.get(); }
  [[nodiscard]] int out() const { return out_.get(); }
  [[nodiscard]] bool wants_to_write() const { return !pending_.empty(); }
  /// True when so much waits to be written that whoever fills the link should pause.
  [[nodiscard]] bool congested() const { return pending_.size() > kCongestedBytes; }
  [[nodiscard]] const FrameReader& reader() const { return reader_; }

  /// False: the other end is gone.
  bool send(const Frame& frame);
  bool send_hello();
  bool flush();
  /// Reads what there is. False: the other end has closed.
  bool fill();
  Result<std::optional<Frame>> next() { return reader_.next(); }

 private:
  static constexpr size_t kCongestedBytes = 1 << 20;
  Fd in_, out_;
  FrameReader reader_;
  std::string pending_;
};

}  // namespace isthmus::cli
