// SPDX-License-Identifier: Apache-2.0
// How two processes of a host become connected and how that ends. Called from Shm::poll() through control().
//
//   initiator                         responder
//   connect                      ->   accept
//                      mutual handshake
//   setup: rings, doorbell, probe ->  maps the rings, tries to read the probe
//   tries to read the probe      <-   accept: doorbell, probe, what it read
//   confirm: what it read        ->
//
// Either side may begin. If both do, the attempt of the process with the smaller ProcessId wins: that one turns the other's away,
// the other gives up its own as soon as the winner's is authenticated. A lost attempt is repeated until the deadline, so no order
// of events can leave the two without a connection.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "transport/local/shm.h"

namespace isthmus::transport {
namespace {

constexpr TimeNs kRetryNs = 10 * kMillisecondNs;
constexpr size_t kMostPending = 1024;
constexpr int kMostAcceptsAtOnce = 64;

// What epoll says beside the event: whose descriptor it is.
constexpr uint64_t kListenerTag = 0;
constexpr uint64_t kDoorbellTag = 1;
constexpr uint64_t kTimerTag = 2;
constexpr uint64_t kPendingTag = 3;
constexpr uint64_t kFirstPeerTag = 4;

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes;
  ISTHMUS_TRY(random_bytes(bytes));
  std::string name = "isthmus-";
  for (const std::byte byte : bytes) name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return name;
}

Result<wire::Nonce> nonce() {
  wire::Nonce fresh;
  ISTHMUS_TRY(random_bytes(fresh));
  return fresh;
}

bool is_setting_up(const ShmPeer* peer) { return peer->state == ShmPeer::State::connecting || peer->state == ShmPeer::State::accepting; }

}  // namespace

Status Shm::open() {
  ISTHMUS_ASSIGN(socket_name_, random_name());
  ISTHMUS_ASSIGN(listener_, ShmSocket::listen(socket_name_));
  doorbell_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell_.valid()) return errno_error("eventfd", errno);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return errno_error("epoll_create", errno);
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_.valid()) return errno_error("timerfd_create", errno);
  watch(listener_.get(), kListenerTag);
  watch(doorbell_.get(), kDoorbellTag);
  watch(timer_.get(), kTimerTag);

  probe_ = std::make_unique<uint64_t>(0);
  while (*probe_ == 0) ISTHMUS_TRY(random_bytes(std::as_writable_bytes(std::span(probe_.get(), 1))));
  return {};
}

/// Doorbell and timer are never read: each ring is a new edge. The rest is watched by level, so nothing is forgotten. A descriptor
/// that is watched already gets the new tag.
void Shm::watch(int fd, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | (tag == kDoorbellTag || tag == kTimerTag ? unsigned{EPOLLET} : 0U);
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

/// So that retries and deadlines of connections do not depend on how long the driver sleeps.
void Shm::set_alarm() {
  if (setting_up_.empty() && pending_.empty()) return;
  itimerspec alarm{};
  alarm.it_value.tv_nsec = kRetryNs;
  timerfd_settime(timer_.get(), 0, &alarm, nullptr);
}

bool Shm::control(TimeNs now) {
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool news = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
    news = news || (tag != kDoorbellTag && tag != kTimerTag);
    if (tag == kListenerTag) accept_connections(now);
    ShmPeer* peer = tag >= kFirstPeerTag ? find(static_cast<PeerId>(tag - kFirstPeerTag)) : nullptr;
    if (peer != nullptr && peer->state == ShmPeer::State::ready) read_messages(*peer, now);
  }
  if (!pending_.empty()) advance_pending(now);
  for (size_t i = 0; i < setting_up_.size(); ++i) advance_connecting(*setting_up_[i], now);
  if (segments_.releases() != releases_seen_) announce_releases();
  end_finished_peers();
  const size_t set_up = std::erase_if(setting_up_, [](const ShmPeer* peer) { return !is_setting_up(peer); });
  const size_t ended = std::erase_if(ready_, [](const ShmPeer* peer) { return peer->state != ShmPeer::State::ready; });
  return news || set_up + ended > 0;
}

// --- connections that others open ------------------------------------------------------------------------------------------------

void Shm::accept_connections(TimeNs now) {
  for (int i = 0; i < kMostAcceptsAtOnce; ++i) {
    auto accepted = ShmSocket::accept(listener_.get());
    if (!accepted.ok()) {
      if (!accept_failure_said_) notice(fmt::format("a connection was not accepted: {}", accepted.status().text()));
      accept_failure_said_ = true;
      return;
    }
    if (!*accepted) return;
    const auto fresh = nonce();
    if (!fresh.ok() || pending_.size() >= kMostPending) continue;
    ShmSocket socket = std::move(**accepted);
    socket.start(wire::Handshake::respond(
        crypto_, {.process = options_.process}, [this](const wire::Hello& hello) { return key_for(hello); }, *fresh));
    watch(socket.fd(), kPendingTag);
    pending_.push_back({.socket = std::move(socket), .deadline = now + options_.setup_timeout_ns});
  }
}

wire::Handshake::KeyAnswer Shm::key_for(const wire::Hello& hello) const {
  if (hello.purpose != wire::Purpose::data) return {};
  ShmPeer* peer = find(hello.process);
  if (peer == nullptr) return {.again = true};
  if (peer->state == ShmPeer::State::failed) return {};
  const auto membership = peer->membership(hello.communicator);
  if (membership == peer->memberships.end()) return {.again = true};
  return {.key = &membership->key};
}

void Shm::advance_pending(TimeNs now) {
  std::erase_if(pending_, [&](Pending& pending) {
    const auto keep = try_pending(pending, now);
    if (!keep.ok() && !pending.socket.at_end() && options_.turn_away)
      options_.turn_away(fmt::format("refused a connection from process {}: {}", pending.socket.pid(), keep.status().text()));
    return !keep.ok() || !*keep;
  });
}

/// False once the connection has gone to its peer, or nowhere.
Result<bool> Shm::try_pending(Pending& pending, TimeNs now) {
  if (now >= pending.deadline) return timeout_error("it did not finish the handshake in time");
  ISTHMUS_ASSIGN(const bool authenticated, pending.socket.authenticate());
  if (!authenticated) return true;
  ShmPeer* peer = find(pending.socket.peer().process);
  const bool ours_wins = peer->state == ShmPeer::State::connecting && peer->socket && options_.process < peer->process;
  const bool wanted = peer->state == ShmPeer::State::known || is_setting_up(peer);
  if (wanted && !ours_wins) adopt(*peer, std::move(pending.socket), now);
  return false;
}

void Shm::adopt(ShmPeer& peer, ShmSocket socket, TimeNs now) {
  drop_socket(peer);
  peer.socket = std::move(socket);
  peer.state = ShmPeer::State::accepting;
  peer.deadline = now + options_.setup_timeout_ns;
  watch(peer.socket->fd(), kFirstPeerTag + peer.id);
  set_up(peer);
}

// --- connections that we open ----------------------------------------------------------------------------------------------------

void Shm::begin_connecting(ShmPeer& peer, uint64_t communicator) {
  peer.state = ShmPeer::State::connecting;
  peer.deadline = kNever;  // counts from the next poll, which knows the time
  peer.retry_at = INT64_MIN;
  peer.next_membership = static_cast<size_t>(peer.membership(communicator) - peer.memberships.begin());
  control_due_ = true;
  set_up(peer);
}

void Shm::set_up(ShmPeer& peer) {
  if (std::ranges::find(setting_up_, &peer) == setting_up_.end()) setting_up_.push_back(&peer);
}

void Shm::advance_connecting(ShmPeer& peer, TimeNs now) {
  if (!is_setting_up(&peer)) return;
  if (peer.deadline == kNever) peer.deadline = now + options_.setup_timeout_ns;
  if (now >= peer.deadline) {
    const std::string last = peer.ended.ok() ? "" : fmt::format(" (last attempt: {})", peer.ended.text());
    return fail(peer, timeout_error(fmt::format("no connection within {} ms{}; is the process stopped, or does it belong to another job?",
                                                options_.setup_timeout_ns / kMillisecondNs, last)));
  }
  if (peer.state == ShmPeer::State::accepting || peer.setup_sent) return read_messages(peer, now);
  if (!peer.socket && now < peer.retry_at) return;
  const Status status = peer.socket ? authenticate(peer) : start_attempt(peer, now);
  if (status.ok()) return;
  // Without a socket nobody listens there any more, and what this system refuses now it will refuse again: both are final.
  if (!peer.socket || status.code() == Code::system_error) return fail(peer, status);
  lose_socket(peer, status, now);
}

Status Shm::start_attempt(ShmPeer& peer, TimeNs now) {
  peer.retry_at = now + kRetryNs;
  if (peer.memberships.empty()) return {};
  ISTHMUS_ASSIGN(auto socket, ShmSocket::connect(peer.socket_name));
  if (!socket) return {};
  ISTHMUS_ASSIGN(const wire::Nonce fresh, nonce());
  // A key that the peer does not know, because its communicator ended there, gets no answer: so the next attempt takes the next one.
  const ShmPeer::Membership& membership = peer.memberships[peer.next_membership++ % peer.memberships.size()];
  const wire::Hello hello{.communicator = membership.communicator, .purpose = wire::Purpose::data, .process = options_.process};
  socket->start(wire::Handshake::initiate(crypto_, hello, membership.key, fresh));
  peer.socket = std::move(*socket);
  watch(peer.socket->fd(), kFirstPeerTag + peer.id);
  return authenticate(peer);
}

Status Shm::authenticate(ShmPeer& peer) {
  ISTHMUS_ASSIGN(const bool done, peer.socket->authenticate());
  if (!done) return {};
  if (peer.socket->peer().process != peer.process) return remote_error("another process answers under its name");
  ISTHMUS_ASSIGN(peer.rings, RingPair::create(options_.ring_bytes));
  const std::array<int, 2> fds{peer.rings->memory(), doorbell_.get()};
  const LinkMessage setup{.kind = LinkMessage::Kind::setup, .number = probe_address(), .bytes = options_.ring_bytes};
  ISTHMUS_ASSIGN(peer.setup_sent, peer.socket->send(setup, fds));
  return peer.setup_sent ? Status() : remote_error("its unix socket takes no messages");
}

// --- messages --------------------------------------------------------------------------------------------------------------------

void Shm::read_messages(ShmPeer& peer, TimeNs now) {
  while (peer.socket) {
    auto received = peer.socket->receive();
    if (received.ok() && !*received) return;
    const Status status = received.ok() ? on_message(peer, std::move(**received)) : received.status();
    if (status.ok()) continue;
    if (is_setting_up(&peer) && status.code() == Code::system_error) return fail(peer, status);
    lose_socket(peer, status, now);
  }
}

Status Shm::on_message(ShmPeer& peer, LinkMessage message) {
  using Kind = LinkMessage::Kind;
  const bool ready = peer.state == ShmPeer::State::ready;
  if (message.kind == Kind::setup && peer.state == ShmPeer::State::accepting) return on_setup(peer, std::move(message));
  if (message.kind == Kind::accept && peer.setup_sent) return on_accept(peer, std::move(message));
  if (message.kind == Kind::confirm && ready) {
    peer.reads_us = may_read_us(message.value);
    return {};
  }
  if (message.kind == Kind::segment && ready) return on_segment(peer, std::move(message));
  if (message.kind == Kind::released && ready) {
    peer.memory.unmap(message.number);
    return {};
  }
  if (message.kind == Kind::bye) return remote_error("it has closed its connections");
  return remote_error(fmt::format("it sent link message {} out of turn", static_cast<unsigned>(message.kind)));
}

Status Shm::on_setup(ShmPeer& peer, LinkMessage message) {
  ISTHMUS_ASSIGN(RingPair rings, RingPair::attach(std::move(message.fds[0]), message.bytes));
  const LinkMessage answer{.kind = LinkMessage::Kind::accept, .number = probe_address(), .value = read_probe(peer, message.number)};
  const int fd = doorbell_.get();
  ISTHMUS_ASSIGN(const bool sent, peer.socket->send(answer, {&fd, 1}));
  if (!sent) return remote_error("its unix socket takes no messages");
  become_ready(peer, std::move(rings), false, std::move(message.fds[1]));
  return {};
}

Status Shm::on_accept(ShmPeer& peer, LinkMessage message) {
  peer.reads_us = may_read_us(message.value);
  const LinkMessage answer{.kind = LinkMessage::Kind::confirm, .value = read_probe(peer, message.number)};
  ISTHMUS_ASSIGN(const bool sent, peer.socket->send(answer));
  if (!sent) return remote_error("its unix socket takes no messages");
  RingPair rings = std::move(*peer.rings);
  peer.rings.reset();
  peer.setup_sent = false;
  become_ready(peer, std::move(rings), true, std::move(message.fds[0]));
  return {};
}

Status Shm::on_segment(ShmPeer& peer, LinkMessage message) {
  const Status mapped = peer.memory.map(message.number, std::move(message.fds[0]), message.bytes);
  if (mapped.code() == Code::remote_error) return mapped;
  if (!mapped.ok()) notice(fmt::format("a shared segment of {} stays unmapped: {}", peer.title, mapped.text()));
  return {};
}

/// 0 where nobody is to read our memory.
uint64_t Shm::probe_address() const { return options_.cma_disable ? 0 : reinterpret_cast<uintptr_t>(probe_.get()); }

bool Shm::may_read_us(uint64_t proof) const { return !options_.cma_disable && proof == *probe_; }

/// The word that proves to the peer that we can read its memory; 0 if we cannot.
uint64_t Shm::read_probe(ShmPeer& peer, uint64_t address) {
  if (options_.cma_disable || address == 0) return 0;
  const auto word = peer.memory.probe(peer.socket->pid(), address);
  if (word.ok()) return *word;
  if (word.status().code() == Code::remote_error) return 0;  // it is gone, which says nothing about the system
  if (!cma_refusal_said_)
    notice(
        fmt::format("large messages between processes of this host are copied twice, because reading another process's memory is "
                    "refused ({}); to allow it give the container CAP_SYS_PTRACE, set kernel.yama.ptrace_scope=0, or let the ranks "
                    "share one user namespace",
                    word.status().text()));
  cma_refusal_said_ = true;
  return 0;
}

void Shm::become_ready(ShmPeer& peer, RingPair rings, bool creator, Fd doorbell) {
  rings.close_memory();
  peer.channel.open(std::move(rings), creator, std::move(doorbell));
  peer.state = ShmPeer::State::ready;
  peer.ended = Status();
  ready_.push_back(&peer);
}

// --- endings ---------------------------------------------------------------------------------------------------------------------

void Shm::drop_socket(ShmPeer& peer) {
  peer.setup_sent = false;
  peer.rings.reset();
  if (!peer.socket) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket->fd(), nullptr);  // a forked child may keep the descriptor alive
  peer.socket->shut_down();
  peer.socket.reset();
}

/// The connection, or an attempt at one, is over. Never reports a failure itself: view() comes here too.
void Shm::lose_socket(ShmPeer& peer, const Status& why, TimeNs now) {
  drop_socket(peer);
  peer.ended = why;
  if (peer.state == ShmPeer::State::ready) {
    control_due_ = true;
    return;
  }
  peer.retry_at = now + kRetryNs;
  if (peer.state == ShmPeer::State::accepting) peer.state = peer.channel.waiting() ? ShmPeer::State::connecting : ShmPeer::State::known;
}

void Shm::announce_releases() {
  const uint64_t releases = segments_.releases();
  bool all = true;
  for (ShmPeer* peer : ready_) {
    std::erase_if(peer->announced, [&](uint64_t segment) {
      if (segments_.alive(segment) || !peer->socket) return false;
      const auto sent = peer->socket->send({.kind = LinkMessage::Kind::released, .number = segment});
      all = all && sent.ok() && *sent;
      return sent.ok() && *sent;
    });
  }
  if (all) releases_seen_ = releases;
}

void Shm::end_finished_peers() {
  for (ShmPeer* peer : ready_) {
    if (!peer->channel.failure().ok()) {
      fail(*peer, peer->channel.failure());
    } else if (!peer->ended.ok()) {
      if (peer->channel.drained()) fail(*peer, peer->ended);
      control_due_ = true;  // until everything that it sent was read
    }
  }
}

void Shm::fail(ShmPeer& peer, const Status& why) {
  peer.state = ShmPeer::State::failed;
  peer.failure = Status(why.code(), fmt::format("{}: {}", peer.title, why.text()), peer.rank);
  drop_socket(peer);
  peer.channel.close();
  peer.memory.clear();
  peer.announced.clear();
  sink_.on_peer_failed(peer.id, peer.failure);
}

void Shm::notice(std::string text) const {
  if (options_.notice) options_.notice(std::move(text));
}

}  // namespace isthmus::transport
