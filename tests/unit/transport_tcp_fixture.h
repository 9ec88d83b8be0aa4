// SPDX-License-Identifier: Apache-2.0
// For the tests of Tcp: processes with a recording sink each, over simulated hosts or over sockets on loopback. Time is the
// simulator's, or the monotonic clock where real sockets need one; no test measures anything by it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/rng.h"
#include "transport/sim/world.h"
#include "transport/tcp/blob.h"
#include "transport/tcp/sockets.h"
#include "transport/tcp/tcp.h"

namespace isthmus::transport {

constexpr uint64_t kCommunicator = 0xC0FFEE;

/// Random bytes, repeated with a period that is no power of two.
inline std::vector<std::byte> random_payload(size_t bytes, uint64_t seed) {
  constexpr size_t kPeriod = 100'003;
  CounterRng dice(seed, 1);
  std::vector<std::byte> payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = i < kPeriod ? static_cast<std::byte>(dice.next_u64()) : payload[i - kPeriod];
  return payload;
}

inline wire::FrameHeader data_header(uint32_t sequence, uint64_t length, uint64_t communicator = kCommunicator) {
  return {.communicator = communicator, .source = 0, .destination = 1, .sequence = sequence, .length = length};
}

/// Keeps everything that a transport tells.
class Recorder final : public FrameSink {
 public:
  struct Frame {
    PeerId from;
    wire::FrameHeader header;
    std::vector<std::byte> payload;
    uint64_t arrived = 0;
    [[nodiscard]] bool complete() const { return arrived == wire::payload_bytes(header); }
  };

  bool in_pieces = false;  ///< take payloads as on_bytes pieces
  std::function<void(const wire::FrameHeader&)> when_frame = [](const auto&) {};
  std::function<void(SendToken)> when_sent = [](SendToken) {};
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<SendToken> sent;
  std::vector<std::pair<PeerId, Status>> failures;

  std::span<std::byte> on_frame(PeerId from, const wire::FrameHeader& header) override {
    frames.push_back(std::make_unique<Frame>(Frame{.from = from, .header = header, .payload = {}}));
    frames.back()->payload.resize(wire::payload_bytes(header));
    current_of(from) = frames.back().get();
    when_frame(header);
    return in_pieces ? std::span<std::byte>() : std::span(current_of(from)->payload);
  }
  void on_landed(PeerId from, const wire::FrameHeader& header, uint64_t offset, uint64_t bytes) override {
    Frame& frame = frame_of(from, header);
    EXPECT_EQ(frame.arrived, offset);
    frame.arrived += bytes;
  }
  void on_bytes(PeerId from, const wire::FrameHeader& header, uint64_t offset, std::span<const std::byte> bytes) override {
    Frame& frame = frame_of(from, header);
    EXPECT_EQ(frame.arrived, offset);
    std::memcpy(frame.payload.data() + offset, bytes.data(), bytes.size());
    frame.arrived += bytes.size();
  }
  void on_sent(SendToken token) override {
    sent.push_back(token);
    when_sent(token);
  }
  void on_peer_failed(PeerId peer, const Status& why) override { failures.emplace_back(peer, why); }

  [[nodiscard]] size_t complete_frames() const {
    size_t count = 0;
    for (const auto& frame : frames) count += frame->complete() ? 1 : 0;
    return count;
  }

 private:
  /// Streams of one peer interleave, so the frame is found by its header, newest first.
  Frame& frame_of(PeerId from, const wire::FrameHeader& header) {
    Frame*& current = current_of(from);
    for (size_t i = frames.size(); !is(*current, from, header) && i-- > 0;) current = frames[i].get();
    EXPECT_TRUE(is(*current, from, header));
    return *current;
  }
  static bool is(const Frame& frame, PeerId from, const wire::FrameHeader& header) {
    return frame.from == from && frame.header.communicator == header.communicator && frame.header.sequence == header.sequence;
  }
  Frame*& current_of(PeerId from) {
    if (current_.size() <= from) current_.resize(from + 1);
    return current_[from];
  }
  std::vector<Frame*> current_;
};

/// One process of a job.
struct Process {
  ProcessId id{};
  std::string host;
  SimHost sim_host = 0;
  Recorder sink;
  std::unique_ptr<Tcp> tcp;
  std::vector<std::string> refusals;
};

/// Some processes that know each other; process i is peer i to all others.
class Job {
 public:
  Job(bool simulated, size_t processes, TcpOptions options = {}, uint64_t seed = 1) : simulated_(simulated), world_(seed) {
    for (size_t i = 0; i < processes; ++i) {
      auto process = std::make_unique<Process>();
      process->id[0] = static_cast<uint8_t>(i + 1);
      process->host = fmt::format("host{}", i);
      process->sim_host = world_.add_host(process->host);
      options.process = process->id;
      process->tcp = Tcp::make(network_of(*process), process->sink, crypto(), options).value();
      process->tcp->set_on_refused([at = process.get()](const std::string& line) { at->refusals.push_back(line); });
      processes_.push_back(std::move(process));
    }
  }
  ~Job() { processes_.clear(); }

  static const Crypto& crypto() { return *Crypto::load().value(); }
  static Key key(uint8_t number = 1) {
    Key key{};
    key[0] = std::byte{number};
    return key;
  }

  Process& operator[](size_t i) { return *processes_[i]; }
  SimWorld& world() { return world_; }
  /// Where process i listens.
  Address address(size_t i) { return decode_addresses(processes_[i]->tcp->local_blob())->front(); }
  Network& network(size_t i) { return network_of(*processes_[i]); }
  [[nodiscard]] TimeNs now() const {
    if (simulated_) return world_.now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void introduce(size_t who, size_t to_whom, uint64_t communicator = kCommunicator, const Key& with = key()) {
    const std::vector<std::byte> blob = processes_[who]->tcp->local_blob();
    ASSERT_TRUE(processes_[to_whom]
                    ->tcp
                    ->add_peer(static_cast<PeerId>(who), {.process = processes_[who]->id,
                                                          .blob = blob,
                                                          .communicator = communicator,
                                                          .key = with,
                                                          .rank = static_cast<int32_t>(who),
                                                          .host = processes_[who]->host})
                    .ok());
  }
  void introduce_all(uint64_t communicator = kCommunicator) {
    for (size_t a = 0; a < processes_.size(); ++a) {
      for (size_t b = 0; b < processes_.size(); ++b) {
        if (a != b) introduce(a, b, communicator);
      }
    }
  }

  /// Polls everybody who is alive and lets a little time pass.
  void turn() {
    bool moved = false;
    for (const auto& process : processes_) {
      if (process->tcp != nullptr && (!simulated_ || world_.runs(process->sim_host))) moved |= process->tcp->poll(now());
    }
    if (moved) return;
    if (simulated_) {
      world_.run_until(std::min(world_.next_event(), world_.now() + kMillisecondNs));
    } else {
      wait();
    }
  }
  /// Until `condition`, for at most `patience_ns` of the job's time.
  bool run_until(const std::function<bool()>& condition, TimeNs patience_ns = 60 * kSecondNs) {
    const TimeNs deadline = now() + patience_ns;
    while (!condition()) {
      if (now() > deadline) return false;
      turn();
    }
    return true;
  }
  void run_for(TimeNs duration) {
    run_until([] { return false; }, duration);
  }

 private:
  Network& network_of(Process& process) { return simulated_ ? world_.network(process.sim_host) : sockets_; }
  void wait() {
    std::vector<Wait> waits;
    bool idle = true;
    for (const auto& process : processes_) idle &= process->tcp == nullptr || process->tcp->arm(waits);
    std::vector<pollfd> descriptors;
    descriptors.reserve(waits.size());
    for (const Wait& each : waits) descriptors.push_back({.fd = each.fd, .events = POLLIN, .revents = 0});
    if (idle) ::poll(descriptors.data(), descriptors.size(), 5);
    for (const auto& process : processes_) {
      if (process->tcp != nullptr) process->tcp->disarm();
    }
  }

  bool simulated_;
  SimWorld world_;
  Sockets sockets_{{.ifname = "lo", .family = "AF_INET"}};
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace isthmus::transport
