// SPDX-License-Identifier: Apache-2.0
// A simulated TCP connection: two pipes of bytes with send and receive windows, cut into segments that queue on the route, wait out
// losses and blocks, and are acknowledged. Private to sim/. Fails as TCP does: refused, reset, closed, timed out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/sim/state.h"

namespace isthmus::transport::sim {

/// Bytes in order, appended at one end and taken from the other.
class ByteQueue {
 public:
  void push(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void pop(std::span<std::byte> into);

 private:
  std::vector<std::byte> bytes_;
  size_t first_ = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// End 0 connects, end 1 accepts. Pipe e carries what end e writes.
  static constexpr int kClient = 0, kServer = 1;

  Connection(State& state, SimHost client, SimHost server, uint16_t port, const StreamOptions& options);

  /// The client's first knock at the server's door.
  void open() { knock(0); }
  Result<size_t> write(int end, std::span<const std::byte> first, std::span<const std::byte> second);
  Result<size_t> read(int end, std::span<std::byte> bytes);
  [[nodiscard]] bool wants_write(int end) const { return !established_[end] || pipes_[end].refused; }
  [[nodiscard]] Address peer_address(int end) const { return addresses_[1 - end]; }
  /// The owner lets go of its end: what it wrote still arrives, what it did not read resets the other end.
  void close(int end);
  /// The host of `end` died: its process can do nothing any more.
  void host_gone(int end, SimCrash how);
  [[nodiscard]] SimHost host(int end) const { return hosts_[end]; }
  [[nodiscard]] bool finished() const { return closed_[0] && closed_[1]; }
  /// A block of this direction has ended: what it swallowed is sent again.
  void unblocked(SimHost from, SimHost to);

 private:
  /// One direction. Offsets count bytes since the beginning: read <= arrived <= sent <= written.
  struct Pipe {
    ByteQueue bytes;  // [read, written)
    uint64_t written = 0, sent = 0, arrived = 0, read = 0;
    uint64_t acked = 0;        // what the writer knows of `arrived`
    uint64_t window_from = 0;  // what the writer knows of `read`
    uint64_t announced_read = 0;
    uint64_t send_buffer_bytes = 0, receive_buffer_bytes = 0;
    int departing = 0;     // segments in the route's queues
    uint32_t attempt = 0;  // goes up when all that is in flight was lost
    TimeNs last_arrival = 0;
    TimeNs progress_at = 0;  // when the oldest unacknowledged byte began to wait
    bool fin = false, fin_sent = false, fin_arrived = false;
    bool refused = false;
  };

  void knock(int attempt);
  void knock_later(int attempt);
  void answer_knock(int attempt);
  void pump(int pipe);
  /// Zero bytes are the end of the stream.
  void send_segment(int pipe, uint64_t bytes);
  void arrive(int pipe, uint64_t offset, bool fin);
  void acknowledge(int pipe);
  void announce_window(int pipe);
  void resend_lost(int pipe);
  void reset(int end);
  void reset_both();
  [[nodiscard]] Status check_alive(int end);
  [[nodiscard]] Route& route(int pipe) { return state_.route(hosts_[pipe], hosts_[1 - pipe]); }
  [[nodiscard]] bool passes(int pipe) { return state_.passes(hosts_[pipe], hosts_[1 - pipe]); }
  template <typename Action>
  void after(TimeNs delay, Action action);

  State& state_;
  uint64_t id_;
  std::array<SimHost, 2> hosts_;
  std::array<Address, 2> addresses_;
  std::array<Pipe, 2> pipes_;
  std::array<bool, 2> established_{}, closed_{};
  std::array<Status, 2> errors_;
  TimeNs user_timeout_ns_;
};

}  // namespace isthmus::transport::sim
