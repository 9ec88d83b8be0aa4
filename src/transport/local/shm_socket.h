// SPDX-License-Identifier: Apache-2.0
// The unix socket between two processes of a host: proves who the other is (same user, then the handshake), passes descriptors, and
// its end tells of the other's death. Abstract addresses: nothing is left in any file system. Used by Shm; nothing here blocks.
// Fails when the peer is gone, is somebody else, or sends what makes no sense.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"
#include "wire/handshake.h"

namespace isthmus::transport {

/// What the two ends say to each other once they are authenticated: 32 bytes and up to two descriptors.
struct LinkMessage {
  static constexpr size_t kBytes = 32;
  static constexpr size_t kMostFds = 2;

  enum class Kind : uint32_t {
    setup = 1,     ///< initiator: rings (bytes each), its doorbell, its probe (number: address)
    accept = 2,    ///< responder: its doorbell, its probe (number: address), what it read of the initiator's probe (value)
    confirm = 3,   ///< initiator: what it read of the responder's probe (value)
    segment = 4,   ///< a shared segment (number: id, bytes) that offers will refer to
    released = 5,  ///< a shared segment (number: id) that no offer will refer to any more
    bye = 6,       ///< the sender ends in good order
  };

  Kind kind = Kind::bye;
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint64_t value = 0;
  std::array<Fd, kMostFds> fds{};  ///< received ones; always as many as the kind asks for
};

class ShmSocket {
 public:
  /// A listening socket under `name`, which is unique on the host as long as it is random.
  static Result<Fd> listen(std::string_view name);
  /// A connection to the listener `name`; nothing if it cannot take more just now; remote_error if there is none.
  static Result<std::optional<ShmSocket>> connect(std::string_view name);
  /// The next connection that waits at `listener`, if any.
  static Result<std::optional<ShmSocket>> accept(int listener);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The process at the other end, in our numbering; 0 if it has none.
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// The other side has closed the connection.
  [[nodiscard]] bool at_end() const { return at_end_; }

  /// To be called before authenticate().
  void start(wire::Handshake handshake) { handshake_ = std::move(handshake); }
  /// Moves the handshake on; true once both sides have proved the key.
  Result<bool> authenticate();
  [[nodiscard]] const wire::Hello& peer() const { return handshake_->peer(); }

  /// False: no room just now. `fds` stay the caller's.
  Result<bool> send(const LinkMessage& message, std::span<const int> fds = {});
  /// The next message, if it is all there. End of the connection is a remote_error.
  Result<std::optional<LinkMessage>> receive();
  /// Ends the connection for both sides, whoever else holds the descriptor (a forked child).
  void shut_down();

 private:
  explicit ShmSocket(Fd fd) : fd_(std::move(fd)) {}
  /// Refuses processes of other users.
  Status identify();
  Result<size_t> read(std::span<std::byte> into);
  Status closed();
  Result<LinkMessage> take_message();

  Fd fd_;
  pid_t pid_ = 0;
  bool at_end_ = false;
  std::optional<wire::Handshake> handshake_;
  std::array<std::byte, LinkMessage::kBytes> in_{};
  size_t in_bytes_ = 0;
  std::array<Fd, LinkMessage::kMostFds> in_fds_{};
  size_t in_fd_count_ = 0;
};

}  // namespace isthmus::transport
