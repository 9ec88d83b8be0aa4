// SPDX-License-Identifier: Apache-2.0
// Peers, keys and failures of a Tcp. Streams report their ends in context_.failures; nothing is torn down before the turns are over.
#include "transport/tcp/tcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "transport/tcp/blob.h"

namespace isthmus::transport {

namespace {

constexpr TimeNs kDrainNs = kSecondNs;
constexpr uint16_t kMaxStreams = 64;

}  // namespace

struct Tcp::Peer {
  PeerId id = 0;
  ProcessId process{};
  int32_t rank = -1;
  std::string host;
  std::vector<Address> addresses;
  std::vector<uint64_t> communicators;  ///< under which the peer is known, oldest first
  std::vector<std::unique_ptr<Outlet>> outlets;
  std::vector<std::unique_ptr<Inlet>> inlets;
  Status failure;
  TimeNs lost_at = 0;
  bool reported = false;

  [[nodiscard]] bool knows(uint64_t communicator) const {
    return std::find(communicators.begin(), communicators.end(), communicator) != communicators.end();
  }
  /// Everything that the peer sent is here. One that we reached but that has no stream to us may have one on its way.
  [[nodiscard]] bool drained() const {
    if (inlets.empty()) return std::none_of(outlets.begin(), outlets.end(), [](const auto& outlet) { return outlet && outlet->is_open(); });
    return std::all_of(inlets.begin(), inlets.end(), [](const auto& inlet) { return inlet->failed(); });
  }
  [[nodiscard]] std::string name() const {
    return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on host {}", rank, host);
  }
};

Result<std::unique_ptr<Tcp>> Tcp::make(Network& network, FrameSink& sink, const Crypto& crypto, const TcpOptions& options) {
  if (options.streams == 0 || options.streams > kMaxStreams) {
    return invalid_argument(fmt::format("{} streams per peer: expected 1 to {}", options.streams, kMaxStreams));
  }
  std::unique_ptr<Tcp> tcp(new Tcp(network, sink, crypto, options));  // NOLINT: the constructor is private
  ISTHMUS_TRY(tcp->door_.open());
  return tcp;
}

Tcp::Tcp(Network& network, FrameSink& sink, const Crypto& crypto, const TcpOptions& options)
    : context_{.network = network, .sink = sink, .crypto = crypto, .options = options},
      door_(
          context_, [this](const wire::Hello& claim) { return key_for(claim); },
          [this](const wire::Hello& hello, std::unique_ptr<Stream> stream) { return admit(hello, std::move(stream)); }) {}

Tcp::~Tcp() = default;

// --- peers and keys ----------------------------------------------------------------------------------------------------------

std::vector<std::byte> Tcp::local_blob() const { return encode_addresses(door_.addresses()); }

Status Tcp::add_peer(PeerId id, const PeerInfo& info) {
  keys_[info.communicator] = info.key;
  if (Peer* known = find(id); known != nullptr) {
    if (known->process != info.process) return internal_error(fmt::format("tcp: peer {} is another process already", id));
    if (!known->knows(info.communicator)) known->communicators.push_back(info.communicator);
    return {};
  }
  auto addresses = decode_addresses(info.blob);
  if (!addresses.ok()) return addresses.status().with_context(fmt::format("rank {} on host {}", info.rank, info.host));
  auto peer = std::make_unique<Peer>();
  peer->id = id;
  peer->process = info.process;
  peer->rank = info.rank;
  peer->host = info.host;
  peer->addresses = *std::move(addresses);
  peer->communicators = {info.communicator};
  peer->outlets.resize(context_.options.streams);
  peer_of_process_[info.process] = id;
  if (peers_.size() <= id) peers_.resize(id + 1);
  peers_[id] = std::move(peer);
  return {};
}

void Tcp::forget_key(uint64_t communicator) {
  keys_.erase(communicator);
  for (const auto& peer : peers_) {
    if (peer != nullptr) std::erase(peer->communicators, communicator);
  }
}

Tcp::Peer* Tcp::find(PeerId peer) { return peer < peers_.size() ? peers_[peer].get() : nullptr; }

wire::Handshake::KeyAnswer Tcp::key_for(const wire::Hello& claim) const {
  if (claim.purpose != wire::Purpose::data) return {};
  const auto key = keys_.find(claim.communicator);
  const auto peer = peer_of_process_.find(claim.process);
  if (key == keys_.end() || peer == peer_of_process_.end() || !peers_[peer->second]->knows(claim.communicator)) return {.again = true};
  return {.key = &key->second};
}

Status Tcp::admit(const wire::Hello& hello, std::unique_ptr<Stream> stream) {
  Peer& peer = *peers_[peer_of_process_[hello.process]];
  if (peer.reported) return remote_error(fmt::format("{} has failed before: {}", peer.name(), peer.failure.text()));
  const auto same = [&](const auto& inlet) { return inlet->index() == hello.stream; };
  if (hello.stream >= kMaxStreams || std::any_of(peer.inlets.begin(), peer.inlets.end(), same)) {
    return remote_error(fmt::format("{} opened stream {} twice", peer.name(), hello.stream));
  }
  ++context_.counters.streams_accepted;
  peer.inlets.push_back(std::make_unique<Inlet>(context_, peer.id, hello.stream, std::move(stream)));
  return peer.inlets.back()->open();
}

// --- sending -----------------------------------------------------------------------------------------------------------------

Status Tcp::send(PeerId id, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) {
  Peer* peer = find(id);
  if (peer == nullptr) return internal_error(fmt::format("tcp: peer {} is not known", id));
  if (peer->reported) return peer->failure;
  if (!peer->failure.ok()) return {};  // on_peer_failed comes as soon as what the peer sent before is read
  const size_t stream = hash_combine(header.communicator, static_cast<uint64_t>(header.call_class)) % peer->outlets.size();
  std::unique_ptr<Outlet>& outlet = peer->outlets[stream];
  if (outlet == nullptr) {
    ISTHMUS_TRY(dial(*peer, stream, header.communicator));
    outlet = std::make_unique<Outlet>(context_, id);
  }
  outlet->push(header, payload, token);
  context_.readiness.ask_turn(*outlet);
  return {};
}

/// Under the key of `communicator`, or of any that the peer knows too.
Status Tcp::dial(Peer& peer, size_t stream, uint64_t communicator) {
  if (peer.communicators.empty()) return invalid_usage(fmt::format("{}: no communicator in common any more", peer.name()));
  if (!peer.knows(communicator)) communicator = peer.communicators.back();
  const wire::Hello hello{.communicator = communicator,
                          .purpose = wire::Purpose::data,
                          .stream = static_cast<uint16_t>(stream),
                          .process = context_.options.process};
  dialing_.push_back(std::make_unique<Dialing>(
      Dialing{.peer = peer.id, .stream = stream, .dialer = Dialer(context_, peer.addresses, hello, peer.process, keys_[communicator])}));
  return {};
}

void Tcp::poll_dialing(TimeNs now) {
  for (size_t i = 0; i < dialing_.size();) {
    Dialing& dialing = *dialing_[i];
    Status status = dialing.dialer.poll(now);
    if (status.ok() && !dialing.dialer.done()) {
      ++i;
      continue;
    }
    if (status.ok()) status = peers_[dialing.peer]->outlets[dialing.stream]->open(dialing.dialer.take());
    if (status.ok()) ++context_.counters.streams_opened;
    if (!status.ok()) context_.failures.push_back({.peer = dialing.peer, .why = status});
    dialing_.erase(dialing_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Result<std::span<const std::byte>> Tcp::view(PeerId, const wire::RemoteSpan&, uint64_t, uint64_t, std::span<std::byte>) {
  return internal_error("tcp: memory of another host cannot be read in place");
}

void Tcp::abandon(uint64_t communicator, int32_t rank) {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    for (const auto& outlet : peer->outlets) {
      if (outlet != nullptr) outlet->abandon(communicator, rank);
    }
    for (const auto& inlet : peer->inlets) inlet->abandon(communicator, rank);
  }
}

// --- progress ----------------------------------------------------------------------------------------------------------------

bool Tcp::poll(TimeNs now) {
  const bool quiet = dialing_.empty() && lost_.empty() && context_.failures.empty() && context_.readiness.quiet(now);
  if (quiet) return false;  // polls between small calls on this host are many
  context_.readiness.collect(now);
  bool moved = context_.readiness.take_turns(now);
  door_.poll(now);
  poll_dialing(now);
  moved |= context_.readiness.take_turns(now);  // what callbacks have queued goes out at once
  moved |= settle_failures(now);
  return moved;
}

bool Tcp::arm(std::vector<Wait>& waits) { return context_.readiness.arm(waits); }

/// Streams that ended take their peer down, but what it sent before is read first.
bool Tcp::settle_failures(TimeNs now) {
  for (const StreamFailure& failure : std::exchange(context_.failures, {})) {
    Peer& peer = *peers_[failure.peer];
    if (!peer.failure.ok()) continue;
    peer.failure = Status(failure.why.code(), fmt::format("{}: {}", peer.name(), failure.why.text()), peer.rank);
    peer.lost_at = now;
    lost_.push_back(&peer);
  }
  std::vector<Peer*> gone;
  std::erase_if(lost_, [&](Peer* peer) {
    if (!peer->drained() && now - peer->lost_at < kDrainNs) return false;
    gone.push_back(peer);
    return true;
  });
  for (Peer* peer : gone) {
    drop(*peer);
    context_.sink.on_peer_failed(peer->id, peer->failure);
  }
  return !gone.empty();
}

void Tcp::drop(Peer& peer) {
  peer.reported = true;
  peer.inlets.clear();
  for (auto& outlet : peer.outlets) outlet.reset();
  std::erase_if(dialing_, [&](const auto& dialing) { return dialing->peer == peer.id; });
}

}  // namespace isthmus::transport
