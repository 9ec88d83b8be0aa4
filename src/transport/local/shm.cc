// SPDX-License-Identifier: Apache-2.0
// Shm as its owner sees it: peers, frames, offers, polling, sleeping. How connections are made and end is in shm_setup.cc.
#include "transport/local/shm.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace isthmus::transport {
namespace {

// Sockets carry news that is seldom and never urgent, unless a connection is being made.
constexpr TimeNs kControlIntervalNs = 500 * kMicrosecondNs;
constexpr TimeNs kSetUpIntervalNs = 20 * kMicrosecondNs;

}  // namespace

Shm::Shm(ShmOptions options, const Crypto& crypto, const memory::SharedSegments& segments, FrameSink& sink)
    : options_(std::move(options)), crypto_(crypto), segments_(segments), sink_(sink), releases_seen_(segments.releases()) {}

Result<std::unique_ptr<Shm>> Shm::create(ShmOptions options, const Crypto& crypto, const memory::SharedSegments& segments,
                                         FrameSink& sink) {
  std::unique_ptr<Shm> shm(new Shm(std::move(options), crypto, segments, sink));
  ISTHMUS_TRY(shm->open().with_context("shared memory between the ranks of this host"));
  return shm;
}

Shm::~Shm() {
  for (ShmPeer* peer : ready_) {
    if (peer->socket && peer->ended.ok()) (void)peer->socket->send({.kind = LinkMessage::Kind::bye});
  }
  for (const auto& peer : peers_) {
    if (peer && peer->socket) peer->socket->shut_down();
  }
}

std::vector<std::byte> Shm::local_blob() const {
  const auto bytes = as_bytes(socket_name_);
  return {bytes.begin(), bytes.end()};
}

Status Shm::add_peer(PeerId id, const PeerInfo& info) {
  if (id >= peers_.size()) peers_.resize(id + 1);
  auto& peer = peers_[id];
  if (!peer) {
    peer = std::make_unique<ShmPeer>(id, sink_, options_.max_payload_bytes);
    peer->process = info.process;
    peer->socket_name.assign(reinterpret_cast<const char*>(info.blob.data()), info.blob.size());
    peer->rank = info.rank;
    peer->title = fmt::format("rank {} on host {}", info.rank, info.host);
  }
  if (peer->process != info.process) return internal_error(fmt::format("shm: peer {} was another process before", id));
  const auto known = peer->membership(info.communicator);
  if (known != peer->memberships.end()) {
    known->key = info.key;
  } else {
    peer->memberships.push_back({.communicator = info.communicator, .key = info.key});
  }
  control_due_ = true;  // somebody may wait for this key
  return peer->failure;
}

void Shm::forget_key(uint64_t communicator) {
  for (const auto& peer : peers_) {
    if (peer) std::erase_if(peer->memberships, [&](const auto& membership) { return membership.communicator == communicator; });
  }
}

ShmPeer* Shm::find(const ProcessId& process) const {
  const auto found = std::ranges::find_if(peers_, [&](const auto& peer) { return peer && peer->process == process; });
  return found == peers_.end() ? nullptr : found->get();
}

Status Shm::send(PeerId id, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) {
  ShmPeer* peer = find(id);
  if (peer == nullptr) return internal_error(fmt::format("shm: frame to peer {}, which was never added", id));
  if (peer->state == ShmPeer::State::failed) return peer->failure;
  if (peer->state == ShmPeer::State::known) begin_connecting(*peer, header.communicator);
  peer->channel.send(header, payload, token);
  return {};
}

bool Shm::try_send(PeerId id, const wire::FrameHeader& header, std::span<const std::byte> payload) {
  ShmPeer* peer = find(id);
  return peer != nullptr && peer->state == ShmPeer::State::ready && peer->channel.try_send(header, payload);
}

bool Shm::offer(PeerId id, std::span<const std::byte> memory, wire::RemoteSpan& remote) {
  ShmPeer* peer = find(id);
  if (peer == nullptr || peer->state != ShmPeer::State::ready || !peer->ended.ok()) return false;
  remote = {.address = reinterpret_cast<uintptr_t>(memory.data()), .bytes = memory.size()};
  const auto place = segments_.find(memory);
  if (place && announce(*peer, place->segment)) {
    remote.segment = place->segment;
    remote.offset = place->offset;
    return true;
  }
  if (!peer->reads_us || memory.size() < options_.cma_bytes) return false;
  if (options_.huge_pages) huge_pages_.used(memory);
  return true;
}

/// Sees to it that `peer` can map `segment`; false if the system refuses.
bool Shm::announce(ShmPeer& peer, uint64_t segment) {
  if (peer.announced.contains(segment)) return true;
  const auto shared = segments_.share(segment);
  if (!shared.ok()) return false;
  const int fd = shared->fd.get();
  const auto sent = peer.socket->send({.kind = LinkMessage::Kind::segment, .number = segment, .bytes = shared->bytes}, {&fd, 1});
  if (!sent.ok() || !*sent) return false;
  peer.announced.insert(segment);
  return true;
}

Result<std::span<const std::byte>> Shm::view(PeerId id, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                             std::span<std::byte> bounce) {
  ShmPeer* peer = find(id);
  if (peer == nullptr) return internal_error(fmt::format("shm: view of peer {}, which was never added", id));
  if (!peer->failure.ok()) return peer->failure;
  // The announcement was sent before the offer, so it is there if it was sent at all.
  if (remote.segment != 0 && peer->state == ShmPeer::State::ready && !peer->memory.knows(remote.segment)) read_messages(*peer, 0);
  auto seen = peer->memory.view(remote, offset, bytes, bounce);
  if (!seen.ok()) return Status(seen.status().code(), fmt::format("{}: {}", peer->title, seen.status().text()), peer->rank);
  return seen;
}

void Shm::abandon(uint64_t communicator, int32_t rank) {
  for (const auto& peer : peers_) {
    if (peer) peer->channel.abandon(communicator, rank);
  }
}

bool Shm::poll(TimeNs now) {
  bool moved = false;
  for (ShmPeer* peer : ready_) {
    moved = peer->channel.poll() || moved;
    control_due_ = control_due_ || !peer->channel.failure().ok();
  }
  if (!control_due_ && now < next_control_) return moved;
  control_due_ = false;
  moved = control(now) || moved;
  next_control_ = now + (setting_up_.empty() && pending_.empty() ? kControlIntervalNs : kSetUpIntervalNs);
  return moved;
}

bool Shm::glance(PeerId id) {
  ShmPeer* peer = find(id);
  if (peer == nullptr || peer->state != ShmPeer::State::ready) return false;
  const bool moved = peer->channel.glance();
  control_due_ = control_due_ || !peer->channel.failure().ok();
  return moved;
}

bool Shm::arm(std::vector<Wait>& waits) {
  bool idle = !control_due_;
  for (ShmPeer* peer : ready_) idle = idle && peer->channel.arm();
  if (!idle) {
    disarm();
    return false;
  }
  set_alarm();
  waits.push_back({.fd = epoll_.get()});
  return true;
}

void Shm::disarm() {
  for (ShmPeer* peer : ready_) peer->channel.disarm();
  control_due_ = true;  // whatever woke us may be at the sockets
}

}  // namespace isthmus::transport
