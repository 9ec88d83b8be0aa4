// SPDX-License-Identifier: Apache-2.0
// Tcp: frames over streams of any Network, real or simulated; for peers on other hosts. Owned by exec's Process, used by one thread
// at a time. Each process opens the streams that it sends on, at the first frame, and accepts those that it receives on; so there are
// no ties to break. Every stream begins with the mutual handshake. Its timers (connecting, strangers) run in poll(), which therefore
// wants to be called every 100 ms or so even while nothing arrives.
//
// A peer fails, once, when a stream of it ends, breaks or speaks nonsense, or when none can be opened within the setup timeout. What
// the peer sent before is delivered first: its other streams are read to their ends, for at most a second.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/context.h"
#include "transport/tcp/dialer.h"
#include "transport/tcp/door.h"
#include "transport/tcp/inlet.h"
#include "transport/tcp/outlet.h"

namespace isthmus::transport {

class Tcp final : public Transport {
 public:
  /// Listens on this host's addresses; fails when none works. `network`, `sink` and `crypto` outlive the transport.
  static Result<std::unique_ptr<Tcp>> make(Network& network, FrameSink& sink, const Crypto& crypto, const TcpOptions& options);
  ~Tcp() override;

  [[nodiscard]] std::string_view name() const override { return "tcp"; }
  /// The addresses that this process listens on.
  [[nodiscard]] std::vector<std::byte> local_blob() const override;
  Status add_peer(PeerId peer, const PeerInfo& info) override;
  void forget_key(uint64_t communicator) override;

  /// Fails for an unknown peer, and for a failed one with the cause; while a peer is being lost frames to it are dropped. Nothing is
  /// written before the next poll(), which takes small frames together.
  Status send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) override;
  /// Other hosts read no memory of this one.
  bool offer(PeerId, std::span<const std::byte>, wire::RemoteSpan&) override { return false; }
  Result<std::span<const std::byte>> view(PeerId peer, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                          std::span<std::byte> bounce) override;
  void abandon(uint64_t communicator, int32_t rank) override;

  bool poll(TimeNs now) override;
  bool arm(std::vector<Wait>& waits) override;
  void disarm() override {}

  [[nodiscard]] const TcpCounters& counters() const { return context_.counters; }
  /// Called with a line about every connection that was refused.
  void set_on_refused(std::function<void(const std::string&)> callback) { door_.on_refused = std::move(callback); }

 private:
  struct Peer;
  /// An outlet on its way to being open.
  struct Dialing {
    PeerId peer;
    size_t stream;
    Dialer dialer;
  };

  Tcp(Network& network, FrameSink& sink, const Crypto& crypto, const TcpOptions& options);
  [[nodiscard]] Peer* find(PeerId peer);
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const;
  Status admit(const wire::Hello& hello, std::unique_ptr<Stream> stream);
  Status dial(Peer& peer, size_t stream, uint64_t communicator);
  void poll_dialing(TimeNs now);
  bool settle_failures(TimeNs now);
  void drop(Peer& peer);

  TcpContext context_;
  Door door_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId
  std::map<ProcessId, PeerId> peer_of_process_;
  std::map<uint64_t, Key> keys_;
  std::vector<std::unique_ptr<Dialing>> dialing_;
  std::vector<Peer*> lost_;  ///< failed, but perhaps with bytes still to be read
};

}  // namespace isthmus::transport
