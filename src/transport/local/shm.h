// SPDX-License-Identifier: Apache-2.0
// The transport between processes of one host: rings in memory that the two share, reads of each other's memory where the system
// allows it. Owned by exec's Process; used by one thread at a time. Connections are made at the first frame; a peer that dies, is
// unreachable or breaks the rules is reported through on_peer_failed, always from poll().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/fd.h"
#include "memory/huge_pages.h"
#include "memory/shared_segment.h"
#include "transport/interface.h"
#include "transport/local/shm_peer.h"

namespace isthmus::transport {

struct ShmOptions {
  ProcessId process{};                       ///< this process
  uint64_t ring_bytes = 256 << 10;           ///< per direction and peer: a power of two from 64 KiB to 64 MiB
  uint64_t cma_bytes = 0;                    ///< smaller messages are not offered for reading with process_vm_readv
  bool cma_disable = false;                  ///< neither read other processes' memory nor let them read ours (shared segments remain)
  bool huge_pages = false;                   ///< what others read of us again and again may be moved into huge pages
  TimeNs setup_timeout_ns = 30 * kSecondNs;  ///< for one connection
  uint64_t max_payload_bytes = uint64_t{1} << 46;
  std::function<void(std::string)> notice;     ///< takes what slows the job down or went wrong, each said once
  std::function<void(std::string)> turn_away;  ///< takes a line for every connection refused to a stranger
};

/// Descriptors: four, and two for every connected peer. Memory: two rings for every connected pair.
class Shm final : public Transport {
 public:
  /// `crypto`, `segments` and `sink` must outlive the transport. Fails where sockets or descriptors are refused.
  static Result<std::unique_ptr<Shm>> create(ShmOptions options, const Crypto& crypto, const memory::SharedSegments& segments,
                                             FrameSink& sink);
  ~Shm() override;
  Shm(const Shm&) = delete;
  Shm& operator=(const Shm&) = delete;

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  [[nodiscard]] std::vector<std::byte> local_blob() const override;
  Status add_peer(PeerId peer, const PeerInfo& info) override;
  void forget_key(uint64_t communicator) override;

  /// Payloads that fit into the ring are copied at once: on_sent() then comes before send() returns.
  Status send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload, SendToken token) override;
  bool try_send(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload) override;
  [[nodiscard]] uint64_t whole_bytes() const override { return ShmChannel::kPieceBytes; }
  /// False until the connection stands, so the first messages to a peer are pushed.
  bool offer(PeerId peer, std::span<const std::byte> memory, wire::RemoteSpan& remote) override;
  /// The view is valid until the next call.
  Result<std::span<const std::byte>> view(PeerId peer, const wire::RemoteSpan& remote, uint64_t offset, uint64_t bytes,
                                          std::span<std::byte> bounce) override;

  void abandon(uint64_t communicator, int32_t rank) override;

  /// Looks at the rings every time, at sockets every half millisecond (more often while connections are made) and after arm().
  bool poll(TimeNs now) override;
  bool glance(PeerId peer) override;
  /// Adds one descriptor, whatever the number of peers.
  bool arm(std::vector<Wait>& waits) override;
  void disarm() override;

 private:
  /// A connection that another process opened and has not yet proved the right to.
  struct Pending {
    ShmSocket socket;
    TimeNs deadline;
  };

  Shm(ShmOptions options, const Crypto& crypto, const memory::SharedSegments& segments, FrameSink& sink);
  ShmPeer* find(PeerId peer) const { return peer < peers_.size() ? peers_[peer].get() : nullptr; }
  ShmPeer* find(const ProcessId& process) const;
  bool announce(ShmPeer& peer, uint64_t segment);

  // shm_setup.cc: what happens at the sockets
  Status open();
  void watch(int fd, uint64_t tag);
  void set_alarm();
  bool control(TimeNs now);
  void accept_connections(TimeNs now);
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& hello) const;
  void advance_pending(TimeNs now);
  Result<bool> try_pending(Pending& pending, TimeNs now);
  void adopt(ShmPeer& peer, ShmSocket socket, TimeNs now);
  void begin_connecting(ShmPeer& peer, uint64_t communicator);
  void set_up(ShmPeer& peer);
  void advance_connecting(ShmPeer& peer, TimeNs now);
  Status start_attempt(ShmPeer& peer, TimeNs now);
  Status authenticate(ShmPeer& peer);
  void read_messages(ShmPeer& peer, TimeNs now);
  Status on_message(ShmPeer& peer, LinkMessage message);
  Status on_setup(ShmPeer& peer, LinkMessage message);
  Status on_accept(ShmPeer& peer, LinkMessage message);
  Status on_segment(ShmPeer& peer, LinkMessage message);
  [[nodiscard]] uint64_t probe_address() const;
  [[nodiscard]] bool may_read_us(uint64_t proof) const;
  uint64_t read_probe(ShmPeer& peer, uint64_t address);
  void become_ready(ShmPeer& peer, RingPair rings, bool creator, Fd doorbell);
  void drop_socket(ShmPeer& peer);
  void lose_socket(ShmPeer& peer, const Status& why, TimeNs now);
  void announce_releases();
  void end_finished_peers();
  void fail(ShmPeer& peer, const Status& why);
  void notice(std::string text) const;

  const ShmOptions options_;
  const Crypto& crypto_;
  const memory::SharedSegments& segments_;
  FrameSink& sink_;
  std::string socket_name_;
  std::unique_ptr<uint64_t> probe_;  ///< peers prove with this random word that they can read our memory
  Fd listener_, doorbell_, timer_, epoll_;

  std::vector<std::unique_ptr<ShmPeer>> peers_;  ///< by PeerId; holes where other transports serve
  std::vector<ShmPeer*> ready_;
  std::vector<ShmPeer*> setting_up_;  ///< connecting and accepting
  std::vector<Pending> pending_;
  TimeNs next_control_ = INT64_MIN;
  bool control_due_ = true;
  bool cma_refusal_said_ = false;
  bool accept_failure_said_ = false;
  uint64_t releases_seen_ = 0;
  memory::HugePages huge_pages_;
};

}  // namespace isthmus::transport
