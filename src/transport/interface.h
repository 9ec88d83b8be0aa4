// SPDX-License-Identifier: Apache-2.0
// The walls of the engine. `Network` is byte streams (real sockets or the simulator); bootstrap/ and transport/tcp stand on it.
// `Transport` is addressed peers and reliable frames; exec/ stands on it. Neither blocks, reads a clock or starts a thread:
// the driver calls poll(now) and waits on descriptors. Failures come back as Status or through FrameSink::on_peer_failed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/status.h"
#include "base/types.h"
#include "wire/frame.h"

namespace isthmus::transport {

// --- byte streams ------------------------------------------------------------------------------------------------------------

/// A network address as bytes and port; family 4 or 6. Printable as "10.0.0.1:4000" or "[fe80::1%2]:4000".
struct Address {
  std::array<uint8_t, 16> bytes{};
  uint32_t scope = 0;
  uint16_t port = 0;
  uint8_t family = 0;  ///< 0: none, 4, 6
  friend bool operator==(const Address&, const Address&) = default;
};
std::string to_string(const Address& address);
/// "host:port", "[v6]:port"; numeric hosts only (names are resolved by the caller at the wall).
Result<Address> parse_address(std::string_view text);

/// A connected (or connecting) byte stream.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Bytes accepted (0: would block or still connecting). An error means the stream is dead.
  virtual Result<size_t> write(std::span<const std::byte> bytes) = 0;
  /// Gather write of header and payload without copying them together.
  virtual Result<size_t> write2(std::span<const std::byte> first, std::span<const std::byte> second) = 0;
  /// Bytes read; 0: nothing now. End of stream is a remote_error "closed by peer".
  virtual Result<size_t> read(std::span<std::byte> bytes) = 0;
  [[nodiscard]] virtual Address peer_address() const = 0;
  /// Descriptor to wait on, -1 in the simulator.
  [[nodiscard]] virtual int fd() const = 0;
  /// True while the last write was refused or the connect is pending: the driver then waits for writability too.
  [[nodiscard]] virtual bool wants_write() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// A new connection, or null when none is waiting.
  virtual Result<std::unique_ptr<Stream>> accept() = 0;
  [[nodiscard]] virtual Address address() const = 0;
  [[nodiscard]] virtual int fd() const = 0;
};

/// Options for long fat links; the simulator ignores what it does not model.
struct StreamOptions {
  uint64_t send_buffer_bytes = 0;  ///< 0: the system's choice
  uint64_t receive_buffer_bytes = 0;
  uint64_t unsent_bytes = 0;       ///< what the system may hold back beyond what is under way; 0: the system's choice
  std::string congestion_control;  ///< "" the system's choice
  TimeNs user_timeout_ns = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  /// Listens on `address` (port 0: any, or one of the configured range).
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address) = 0;
  /// Starts connecting; errors may come later from write/read.
  virtual Result<std::unique_ptr<Stream>> connect(const Address& to, const StreamOptions& options) = 0;
  /// Addresses of this host that others may be told, best first (interfaces chosen by NCCL_SOCKET_IFNAME and family settings).
  virtual Result<std::vector<Address>> local_addresses() = 0;
};

// --- frames ------------------------------------------------------------------------------------------------------------------

/// A process of the job as one transport of this process knows it. Small dense numbers, given out by the Process.
using PeerId = uint32_t;

/// Identifies a send to its owner when it completes.
using SendToken = uint64_t;
inline constexpr SendToken kNoToken = 0;

/// What a transport tells its owner. All calls happen inside Transport::poll() or send().
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A header has arrived. Returns where to put its `length` payload bytes; an empty span asks for on_bytes() pieces instead.
  /// Never refuses: flow control (grants, credit) is the owner's business, so there is always room.
  virtual std::span<std::byte> on_frame(PeerId from, const wire::FrameHeader& header) = 0;
  /// A small frame with all of its payload, in the transport's memory, valid during the call. True: taken; false: on_frame() follows.
  virtual bool on_whole(PeerId, const wire::FrameHeader&, std::span<const std::byte>) { return false; }
  /// The next `bytes` of the payload lie where on_frame() said.
  virtual void on_landed(PeerId from, const wire::FrameHeader& header, uint64_t offset, uint64_t bytes) = 0;
  /// The next payload bytes, in the transport's memory, valid during the call.
  virtual void on_bytes(PeerId from, const wire::FrameHeader& header, uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// The payload of send `token` may be overwritten.
  virtual void on_sent(SendToken token) = 0;
  /// Nothing more will come from or go to `peer`.
  virtual void on_peer_failed(PeerId peer, const Status& why) = 0;
};

/// One descriptor to wait on.
struct Wait {
  int fd = -1;
  bool write = false;
};

/// Names a process of the job for its whole life; 16 random bytes.
using ProcessId = std::array<uint8_t, 16>;

/// What a transport needs to know about a peer. Spans live only during the call.
struct PeerInfo {
  ProcessId process{};
  std::span<const std::byte> blob;  ///< the peer's local_blob() of the same transport, untrusted
  uint64_t communicator = 0;        ///< under which communicator the two know each other; names the key
  Key key{};                        ///< that communicator's secret for data connections
  int32_t rank = -1;                ///< the peer's rank there, for messages
  std::string host;                 ///< the peer's host name, for messages
};

/// A frame that uses nobody's memory and whose sender does not ask when it has gone: credit, a grant, that a message was taken.
[[nodiscard]] inline bool is_word(std::span<const std::byte> payload, SendToken token) { return payload.empty() && token == kNoToken; }

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// What other processes need to reach this one; travels in the bootstrap's table. At most 512 bytes.
  [[nodiscard]] virtual std::vector<std::byte> local_blob() const = 0;
  /// Makes `peer` reachable; connections may be made lazily. Called again for the same peer, with another communicator and key,
  /// when a further communicator joins the two; a connection may be made under any key that both sides know.
  virtual Status add_peer(PeerId peer, const PeerInfo& info) = 0;
  /// Forgets a communicator's key (its last local rank was destroyed). Connections that exist stay.
  virtual void forget_key(uint64_t communicator) = 0;

  /// Queues header and payload to `peer`. The payload must stay untouched until on_sent(token) (which may come before send()
  /// returns when the bytes were copied or delivered at once). Data and offers to one peer with the same (communicator, class) arrive in
  /// order; frames that carry no message may overtake them.
  virtual Status send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) = 0;

  /// Copies the frame at once, or does nothing and returns false (never connected, no room, too large): send() takes it then.
  virtual bool try_send(PeerId, const wire::FrameHeader&, std::span<const std::byte>) { return false; }
  /// try_send() takes payloads of up to so many bytes, and FrameSink gets frames of that size in one piece. 0: neither is so.
  [[nodiscard]] virtual uint64_t whole_bytes() const { return 0; }

  /// True if `peer` could read this memory where it lies, and `remote` says how; false: push it.
  virtual bool offer(PeerId peer, std::span<const std::byte> memory, wire::RemoteSpan& remote) = 0;
  /// `bytes` of offered memory from `offset`: either where they lie, or copied into `bounce` (whose size bounds `bytes`).
  virtual Result<std::span<const std::byte>> view(PeerId peer, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                                  std::span<std::byte> bounce) = 0;

  /// Stops using memory of one rank of a communicator (its calls failed, or it goes): queued sends whose header names it as source are
  /// dropped without on_sent(), one that is partly out is completed with zeros, and payloads still landing for it go nowhere. After
  /// this returns no memory handed to send() or returned by on_frame() for that rank is touched. Words (is_word()) still go out: a rank
  /// that goes has done its part, and one that is slower may wait to hear that its message was taken.
  virtual void abandon(uint64_t communicator, int32_t rank) = 0;

  /// Moves what can be moved. True if anything happened.
  virtual bool poll(TimeNs now) = 0;
  /// A quick look at what has come from one peer, between polls. True if anything had.
  virtual bool glance(PeerId) { return false; }
  /// Descriptors that become ready when poll() would find something. arm() is called before blocking on them and returns false
  /// if something already arrived (then do not block); disarm() after.
  virtual bool arm(std::vector<Wait>& waits) = 0;
  virtual void disarm() = 0;
};

}  // namespace isthmus::transport
