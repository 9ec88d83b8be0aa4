// SPDX-License-Identifier: Apache-2.0
// Sockets over POSIX calls. Interrupted calls are repeated, refused ones reported as "nothing now"; a peer's failure comes back as
// remote_error, this host's as system_error, both with the address.
#include "transport/tcp/sockets.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/fd.h"
#include "transport/tcp/interfaces.h"
#include "transport/tcp/sockaddr.h"

namespace isthmus::transport {

namespace {

constexpr int kBacklog = 1024;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

/// Errors that tell of the peer or the way to it, not of this host.
bool is_remote(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

Status socket_error(std::string_view verb, const Address& address, int error) {
  Status status = errno_error(fmt::format("{} {}", verb, to_string(address)), error);
  return is_remote(error) ? remote_error(status.text()) : status;
}

template <typename Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

template <typename T>
bool set_option(int fd, int level, int name, const T& value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

Status apply(int fd, const StreamOptions& options, const Address& address) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.send_buffer_bytes != 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer_bytes));
  if (options.receive_buffer_bytes != 0) set_option(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(options.receive_buffer_bytes));
  if (options.unsent_bytes != 0) set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<unsigned>(options.unsent_bytes));
  if (options.user_timeout_ns != 0) {
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<unsigned>(options.user_timeout_ns / kMillisecondNs));
  }
  const std::string& congestion = options.congestion_control;
  if (!congestion.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(), static_cast<socklen_t>(congestion.size())) != 0) {
    return socket_error(fmt::format("congestion control \"{}\" for", congestion), address, errno);
  }
  return {};
}

Result<Fd> open_socket(const Address& address) {
  if (address.family != 4 && address.family != 6) return invalid_argument("a socket needs an address of family 4 or 6");
  Fd fd(::socket(address.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return socket_error("open a socket for", address, errno);
  return fd;
}

class SocketStream final : public Stream {
 public:
  SocketStream(Fd fd, const Address& peer, bool connected) : fd_(std::move(fd)), peer_(peer), connected_(connected) {}

  Result<size_t> write(std::span<const std::byte> bytes) override { return write2(bytes, {}); }

  Result<size_t> write2(std::span<const std::byte> first, std::span<const std::byte> second) override {
    // sendmsg reads only, but iovec has no const form.
    std::array<iovec, 2> pieces = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                   iovec{const_cast<std::byte*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = second.empty() ? 1 : 2;
    const ssize_t sent = retry_interrupted([&] { return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL); });
    if (sent < 0 && !would_block(errno)) return failed("write to", errno);
    const size_t accepted = sent < 0 ? 0 : static_cast<size_t>(sent);
    if (sent >= 0) connected_ = true;
    refused_ = accepted < first.size() + second.size();
    return accepted;
  }

  Result<size_t> read(std::span<std::byte> bytes) override {
    if (bytes.empty()) return size_t{0};
    const ssize_t got = retry_interrupted([&] { return ::recv(fd_.get(), bytes.data(), bytes.size(), 0); });
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return remote_error(fmt::format("{} closed by peer", to_string(peer_)));
    if (would_block(errno)) return size_t{0};
    return failed("read from", errno);
  }

  [[nodiscard]] Address peer_address() const override { return peer_; }
  [[nodiscard]] int fd() const override { return fd_.get(); }
  [[nodiscard]] bool wants_write() const override { return refused_ || !connected_; }

 private:
  /// Until something was written the first error is the connect's own.
  [[nodiscard]] Status failed(std::string_view verb, int error) const {
    return socket_error(connected_ ? verb : std::string_view("connect to"), peer_, error);
  }

  Fd fd_;
  Address peer_;
  bool connected_;
  bool refused_ = false;
};

class SocketListener final : public Listener {
 public:
  SocketListener(Fd fd, const Address& address, const StreamOptions& accepted)
      : fd_(std::move(fd)), address_(address), accepted_(accepted) {}

  Result<std::unique_ptr<Stream>> accept() override {
    SockAddr from;
    from.bytes = sizeof from.storage;
    Fd fd(retry_interrupted([&] { return ::accept4(fd_.get(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC); }));
    if (!fd.valid()) {
      if (is_this_hosts(errno)) return socket_error("accept on", address_, errno);
      return std::unique_ptr<Stream>();
    }
    const Address peer = from_sockaddr(from.get()).value_or(Address{});
    ISTHMUS_TRY(apply(fd.get(), accepted_, peer));
    return std::unique_ptr<Stream>(std::make_unique<SocketStream>(std::move(fd), peer, true));
  }

  [[nodiscard]] Address address() const override { return address_; }
  [[nodiscard]] int fd() const override { return fd_.get(); }

 private:
  /// Linux hands a new connection's own network errors to accept(); those say nothing about the listener.
  static bool is_this_hosts(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EBADF || error == EINVAL;
  }

  Fd fd_;
  Address address_;
  StreamOptions accepted_;
};

/// Binds and listens; EADDRINUSE may come from either call because SO_REUSEADDR lets two sockets bind before one listens.
Result<Fd> listen_at(const Address& address, const StreamOptions& accepted) {
  ISTHMUS_ASSIGN(Fd fd, open_socket(address));
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family == 6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  // The window offered during the TCP handshake follows the listener's buffer.
  if (accepted.receive_buffer_bytes != 0) {
    set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, static_cast<int>(accepted.receive_buffer_bytes));
  }
  const SockAddr at = to_sockaddr(address);
  if (::bind(fd.get(), at.get(), at.bytes) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) return Fd();
    return socket_error("listen on", address, errno);
  }
  return fd;
}

Result<std::unique_ptr<Listener>> as_listener(Fd fd, const StreamOptions& accepted) {
  SockAddr bound;
  bound.bytes = sizeof bound.storage;
  if (getsockname(fd.get(), bound.get(), &bound.bytes) != 0) return errno_error("read a listener's address", errno);
  return std::unique_ptr<Listener>(
      std::make_unique<SocketListener>(std::move(fd), from_sockaddr(bound.get()).value_or(Address{}), accepted));
}

}  // namespace

Result<std::unique_ptr<Listener>> Sockets::listen(const Address& address) {
  Address at = address;
  const bool any_port = address.port == 0;
  const uint32_t first = any_port ? options_.port_first : address.port;
  const uint32_t last = any_port ? options_.port_last : address.port;
  for (uint32_t port = first; port <= last; ++port) {
    at.port = static_cast<uint16_t>(port);
    ISTHMUS_ASSIGN(Fd fd, listen_at(at, options_.accepted));
    if (fd.valid()) return as_listener(std::move(fd), options_.accepted);
  }
  if (!any_port) return socket_error("listen on", address, EADDRINUSE);
  return system_error(fmt::format("listen on {}: no free port in {}..{}; widen ISTHMUS_PORT_RANGE", to_string(address), first, last));
}

Result<std::unique_ptr<Stream>> Sockets::connect(const Address& to, const StreamOptions& options) {
  ISTHMUS_ASSIGN(Fd fd, open_socket(to));
  ISTHMUS_TRY(apply(fd.get(), options, to));
  const SockAddr at = to_sockaddr(to);
  // An interrupted non-blocking connect goes on in the background like one in progress.
  const bool connected = ::connect(fd.get(), at.get(), at.bytes) == 0;
  if (!connected && errno != EINPROGRESS && errno != EINTR) return socket_error("connect to", to, errno);
  return std::unique_ptr<Stream>(std::make_unique<SocketStream>(std::move(fd), to, connected));
}

Result<std::vector<Address>> Sockets::local_addresses() {
  ISTHMUS_ASSIGN(const std::vector<InterfaceAddress> all, list_interface_addresses());
  return choose_addresses(all, options_.ifname, options_.family);
}

}  // namespace isthmus::transport
