// SPDX-License-Identifier: Apache-2.0
// What the tests of Shm share: a sink that checks what it gets, and a node, one process's end of the transport, driven by hand.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/patience.h"
#include "transport/local/shm.h"

namespace isthmus::transport {

inline TimeNs now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Byte `i` of the payload of frame `key`.
inline std::byte pattern(uint64_t key, uint64_t i) {
  return static_cast<std::byte>((key * 0x9e3779b97f4a7c15U >> 40) + i * 167 + (i >> 9));
}

inline std::vector<std::byte> payload_of(uint64_t key, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  for (uint64_t i = 0; i < bytes; ++i) out[i] = pattern(key, i);
  return out;
}

/// Checks order and content of frames made by Node::send(); takes every third one whole if it may, lands every other one of the rest.
class CheckingSink : public FrameSink {
 public:
  struct From {
    uint64_t frames = 0;  ///< complete ones
    uint64_t next_key = 0;
    uint64_t arrived = 0;
    std::vector<std::byte> landing;
    wire::FrameHeader last;
  };

  std::span<std::byte> on_frame(PeerId peer, const wire::FrameHeader& header) override {
    From& from = froms[peer];
    EXPECT_EQ(header.key, from.next_key);
    from.next_key = header.key + 1;
    from.arrived = 0;
    from.last = header;
    const uint64_t bytes = wire::payload_bytes(header);
    if (bytes == 0) finish(peer, from);
    if (bytes == 0 || header.key % 2 == 0) return {};
    from.landing.assign(bytes, std::byte{0});
    return from.landing;
  }
  bool on_whole(PeerId peer, const wire::FrameHeader& header, std::span<const std::byte> payload) override {
    EXPECT_EQ(payload.size(), header.length);
    EXPECT_FALSE(payload.empty());
    if (header.key % 3 != 0) return false;
    (void)on_frame(peer, header);
    ++whole_frames;
    piece(peer, header, 0, payload);
    return true;
  }
  void on_landed(PeerId peer, const wire::FrameHeader& header, uint64_t offset, uint64_t bytes) override {
    piece(peer, header, offset, std::span<const std::byte>(froms[peer].landing).subspan(offset, bytes));
  }
  void on_bytes(PeerId peer, const wire::FrameHeader& header, uint64_t offset, std::span<const std::byte> bytes) override {
    piece(peer, header, offset, bytes);
  }
  void on_sent(SendToken token) override {
    sent.push_back(token);
    if (when_sent) when_sent(token);
  }
  void on_peer_failed(PeerId peer, const Status& why) override { failures[peer].push_back(why); }

  std::map<PeerId, From> froms;
  std::vector<SendToken> sent;
  std::map<PeerId, std::vector<Status>> failures;
  std::function<void(PeerId, const wire::FrameHeader&)> when_frame;  ///< a whole frame is there
  std::function<void(SendToken)> when_sent;
  bool check_content = true;
  uint64_t whole_frames = 0;

 private:
  void piece(PeerId peer, const wire::FrameHeader& header, uint64_t offset, std::span<const std::byte> bytes) {
    From& from = froms[peer];
    EXPECT_EQ(header.key, from.last.key);
    EXPECT_EQ(offset, from.arrived);
    for (uint64_t i = 0; check_content && i < bytes.size(); ++i) {
      if (bytes[i] == pattern(header.key, offset + i)) continue;
      ADD_FAILURE() << "frame " << header.key << " byte " << offset + i << " of " << header.length;
      break;
    }
    from.arrived += bytes.size();
    if (from.arrived == header.length) finish(peer, from);
  }
  void finish(PeerId peer, From& from) {
    ++from.frames;
    if (when_frame) when_frame(peer, wire::FrameHeader(from.last));
  }
};

inline Key key_of(uint64_t communicator) {
  Key key{};
  key[0] = static_cast<std::byte>(communicator);
  return key;
}

inline ProcessId process_of(int number) {
  ProcessId id{};
  id[0] = static_cast<uint8_t>(number);
  return id;
}

/// One process's end, under number `number`; peers are known by their numbers too.
struct Node {
  explicit Node(int number_, ShmOptions options = {}) : number(number_) {
    options.process = process_of(number);
    options.notice = options.turn_away = [this](const std::string& line) { notices.push_back(line); };
    const auto crypto = Crypto::load();
    EXPECT_TRUE(crypto.ok());
    auto made = Shm::create(std::move(options), **crypto, segments, sink);
    EXPECT_TRUE(made.ok()) << made.status().text();
    shm = std::move(made).value();
  }

  void meet(int other, std::span<const std::byte> blob, uint64_t communicator = 1, const Key* key = nullptr) {
    const Status added = shm->add_peer(static_cast<PeerId>(other), {.process = process_of(other),
                                                                    .blob = blob,
                                                                    .communicator = communicator,
                                                                    .key = key != nullptr ? *key : key_of(communicator),
                                                                    .rank = other,
                                                                    .host = "here"});
    EXPECT_TRUE(added.ok());
  }
  void meet(const Node& other, uint64_t communicator = 1) { meet(other.number, other.shm->local_blob(), communicator); }

  /// Sends the next frame of the sequence that CheckingSink expects. `payload` stays the caller's.
  Status send(int to, std::span<const std::byte> payload, SendToken token = kNoToken, uint64_t communicator = 1) {
    const wire::FrameHeader header{.communicator = communicator, .length = payload.size(), .key = next_key[to]++};
    return shm->send(static_cast<PeerId>(to), header, payload, token);
  }
  /// The same with a payload of `bytes` that the node keeps.
  Status send_new(int to, uint64_t bytes, SendToken token = kNoToken, uint64_t communicator = 1) {
    return send(to, kept.emplace_back(payload_of(next_key[to], bytes)), token, communicator);
  }
  bool poll() { return shm->poll(now()); }
  /// Blocks as the driver would. False if nothing came in time.
  bool sleep(int timeout_ms) {
    std::vector<Wait> waits;
    if (!shm->arm(waits)) return true;
    pollfd fd{.fd = waits.at(0).fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&fd, 1, timeout_ms);
    shm->disarm();
    return ready > 0;
  }

  const int number;
  memory::SharedSegments segments;
  CheckingSink sink;
  std::map<int, uint64_t> next_key;
  std::deque<std::vector<std::byte>> kept;
  std::vector<std::string> notices;
  std::unique_ptr<Shm> shm;
};

/// Polls the nodes in turn until `done`; gives up after ten seconds, or more where a sanitizer watches every byte.
template <typename Done>
[[nodiscard]] bool run_until(std::initializer_list<Node*> nodes, Done done) {
  const TimeNs limit = now() + 10 * kPatience * kSecondNs;
  while (!done()) {
    for (Node* node : nodes) node->poll();
    if (now() > limit) return false;
  }
  return true;
}

/// Two nodes that know each other.
struct Pair {
  explicit Pair(const ShmOptions& a_options = {}, const ShmOptions& b_options = {}) : a(1, a_options), b(2, b_options) {
    a.meet(b);
    b.meet(a);
  }
  /// Makes the connection with an empty frame from `a`, and lets the last messages of its set-up arrive.
  void connect() {
    ASSERT_TRUE(a.send(2, {}).ok());
    ASSERT_TRUE(run_until({&a, &b}, [&] { return b.sink.froms[1].frames == 1; }));
    const TimeNs later = now() + 2 * kMillisecondNs;
    ASSERT_TRUE(run_until({&a, &b}, [&] { return now() > later; }));
  }
  Node a, b;
};

}  // namespace isthmus::transport
