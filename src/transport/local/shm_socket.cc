// SPDX-License-Identifier: Apache-2.0
// ShmSocket over abstract unix stream sockets and SCM_RIGHTS. A message fits into one socket buffer, so it is sent whole or not at
// all; it may still arrive in parts.
#include "transport/local/shm_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace isthmus::transport {
namespace {

constexpr int kBacklog = 4096;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status socket_error(std::string_view what, int error) {
  const Status status = errno_error(what, error);
  if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) return remote_error(status.text());
  return status;
}

struct UnixAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

Result<UnixAddress> abstract_address(std::string_view name) {
  UnixAddress out;
  if (name.empty() || name.size() >= sizeof out.address.sun_path)
    return remote_error(fmt::format("a socket name of {} bytes is not one of ours", name.size()));
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path + 1, name.data(), name.size());  // the leading zero makes it abstract
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

Result<Fd> open_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return socket_error("open a unix socket", errno);
  return fd;
}

const sockaddr* as_sockaddr(const UnixAddress& address) { return reinterpret_cast<const sockaddr*>(&address.address); }

size_t fds_of(LinkMessage::Kind kind) {
  switch (kind) {
    case LinkMessage::Kind::setup:
      return 2;
    case LinkMessage::Kind::accept:
    case LinkMessage::Kind::segment:
      return 1;
    default:
      return 0;
  }
}

union FdBuffer {
  cmsghdr header;  // for its alignment
  std::array<char, CMSG_SPACE(sizeof(int) * LinkMessage::kMostFds)> bytes;
};

}  // namespace

Result<Fd> ShmSocket::listen(std::string_view name) {
  ISTHMUS_ASSIGN(const UnixAddress address, abstract_address(name));
  ISTHMUS_ASSIGN(Fd fd, open_socket());
  if (::bind(fd.get(), as_sockaddr(address), address.bytes) != 0) return socket_error("bind a unix socket", errno);
  if (::listen(fd.get(), kBacklog) != 0) return socket_error("listen on a unix socket", errno);
  return fd;
}

Result<std::optional<ShmSocket>> ShmSocket::connect(std::string_view name) {
  ISTHMUS_ASSIGN(const UnixAddress address, abstract_address(name));
  ISTHMUS_ASSIGN(Fd fd, open_socket());
  if (::connect(fd.get(), as_sockaddr(address), address.bytes) != 0) {
    if (would_block(errno)) return std::optional<ShmSocket>();
    return socket_error("its process is gone: connect to its unix socket", errno);
  }
  ShmSocket socket(std::move(fd));
  ISTHMUS_TRY(socket.identify());
  return std::optional(std::move(socket));
}

Result<std::optional<ShmSocket>> ShmSocket::accept(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    if (would_block(errno) || errno == ECONNABORTED) return std::optional<ShmSocket>();
    return socket_error("accept on a unix socket", errno);
  }
  ShmSocket socket(std::move(fd));
  ISTHMUS_TRY(socket.identify());
  return std::optional(std::move(socket));
}

Status ShmSocket::identify() {
  ucred other{};
  socklen_t bytes = sizeof other;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0) return socket_error("SO_PEERCRED", errno);
  if (other.uid != geteuid())
    return remote_error(fmt::format("process {} at the other end belongs to user {}, not to {}", other.pid, other.uid, geteuid()));
  pid_ = other.pid;
  return {};
}

Status ShmSocket::closed() {
  at_end_ = true;
  return remote_error(fmt::format("process {} died or closed the connection", pid_));
}

Result<size_t> ShmSocket::read(std::span<std::byte> into) {
  const ssize_t got = ::recv(fd_.get(), into.data(), into.size(), 0);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) return closed();
  if (would_block(errno)) return size_t{0};
  return errno == ECONNRESET ? closed() : socket_error("read from its unix socket", errno);
}

Result<bool> ShmSocket::authenticate() {
  std::array<std::byte, 256> buffer;
  while (!handshake_->done()) {
    if (const auto output = handshake_->output(); !output.empty()) {
      const ssize_t sent = ::send(fd_.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (sent < 0 && !would_block(errno)) return socket_error("write to its unix socket", errno);
      if (sent <= 0) return false;
      handshake_->sent(static_cast<size_t>(sent));
    } else if (const size_t wanted = std::min(handshake_->wanted(), buffer.size()); wanted > 0) {
      ISTHMUS_ASSIGN(const size_t got, read(std::span(buffer).first(wanted)));
      if (got == 0) return false;
      ISTHMUS_TRY(handshake_->input(std::span(buffer).first(got)));
    } else {  // the machine waits for a key
      ISTHMUS_TRY(handshake_->input({}));
      if (handshake_->awaits_key()) return ::recv(fd_.get(), buffer.data(), 1, MSG_PEEK) == 0 ? Result<bool>(closed()) : false;
    }
  }
  return true;
}

Result<bool> ShmSocket::send(const LinkMessage& message, std::span<const int> fds) {
  std::array<std::byte, LinkMessage::kBytes> bytes{};
  Writer(bytes).u32(static_cast<uint32_t>(message.kind)).u32(0).u64(message.number).u64(message.bytes).u64(message.value);
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  FdBuffer control{};
  if (!fds.empty()) {
    packet.msg_control = control.bytes.data();
    packet.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = ::sendmsg(fd_.get(), &packet, MSG_NOSIGNAL);
  if (sent < 0 && would_block(errno)) return false;
  if (sent < 0) return socket_error("write to its unix socket", errno);
  if (sent != static_cast<ssize_t>(bytes.size())) return internal_error("a unix socket took part of a 32-byte message");
  return true;
}

Result<std::optional<LinkMessage>> ShmSocket::receive() {
  iovec part{.iov_base = in_.data() + in_bytes_, .iov_len = in_.size() - in_bytes_};
  FdBuffer control{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control.bytes.data();
  packet.msg_controllen = control.bytes.size();
  const ssize_t got = ::recvmsg(fd_.get(), &packet, MSG_CMSG_CLOEXEC);
  if (got < 0 && would_block(errno)) return std::optional<LinkMessage>();
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return closed();
  if (got < 0) return socket_error("read from its unix socket", errno);
  for (cmsghdr* header = CMSG_FIRSTHDR(&packet); header != nullptr; header = CMSG_NXTHDR(&packet, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      Fd owned(fd);
      if (in_fd_count_ < in_fds_.size()) in_fds_[in_fd_count_++] = std::move(owned);
    }
  }
  if ((packet.msg_flags & MSG_CTRUNC) != 0)
    return system_error("receive descriptors over a unix socket: too many open files (raise the limit: ulimit -n)");
  in_bytes_ += static_cast<size_t>(got);
  if (in_bytes_ < in_.size()) return std::optional<LinkMessage>();
  ISTHMUS_ASSIGN(LinkMessage message, take_message());
  return std::optional(std::move(message));
}

Result<LinkMessage> ShmSocket::take_message() {
  Reader reader(in_);
  LinkMessage message;
  const uint32_t kind = reader.u32();
  const uint32_t reserved = reader.u32();
  message.kind = static_cast<LinkMessage::Kind>(kind);
  message.number = reader.u64();
  message.bytes = reader.u64();
  message.value = reader.u64();
  message.fds = std::exchange(in_fds_, {});
  const size_t fds = std::exchange(in_fd_count_, 0);
  in_bytes_ = 0;
  const bool known = kind >= static_cast<uint32_t>(LinkMessage::Kind::setup) && kind <= static_cast<uint32_t>(LinkMessage::Kind::bye);
  if (!known || reserved != 0 || fds != fds_of(message.kind))
    return remote_error(fmt::format("it sent link message {} with {} descriptors", kind, fds));
  return message;
}

void ShmSocket::shut_down() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace isthmus::transport
