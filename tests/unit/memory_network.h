// SPDX-License-Identifier: Apache-2.0
// A Network in memory for unit tests of what stands on transport::Network: immediate delivery, with knobs for what real networks do
// (pieces, backpressure, refusals, silence, resets). One object plays all hosts; not thread-safe.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/interface.h"

namespace isthmus::testing {

inline transport::Address address_of(uint8_t host, uint16_t port) {
  transport::Address address{.port = port, .family = 4};
  address.bytes[0] = 10;
  address.bytes[3] = host;
  return address;
}

/// Both directions of one connection.
struct Pipe {
  std::deque<std::byte> bytes[2];
  bool closed[2] = {false, false};  ///< by the writer of bytes[i]
  bool reset = false;
  bool pending = false;  ///< the connection never gets anywhere
  size_t capacity = 1 << 20;
  size_t piece = SIZE_MAX;  ///< most bytes moved by one call
};

class MemoryStream final : public transport::Stream {
 public:
  MemoryStream(std::shared_ptr<Pipe> pipe, int side, transport::Address peer) : pipe_(std::move(pipe)), side_(side), peer_(peer) {}
  ~MemoryStream() override { pipe_->closed[side_] = true; }

  Result<size_t> write(std::span<const std::byte> from) override {
    if (pipe_->reset) return remote_error("connection reset");
    if (pipe_->closed[1 - side_]) return remote_error("closed by peer");
    auto& out = pipe_->bytes[side_];
    const size_t count =
        pipe_->pending ? 0 : std::min({from.size(), pipe_->piece, pipe_->capacity - std::min(pipe_->capacity, out.size())});
    out.insert(out.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<size_t> write2(std::span<const std::byte> first, std::span<const std::byte> second) override {
    std::vector<std::byte> both(first.begin(), first.end());
    both.insert(both.end(), second.begin(), second.end());
    return write(both);
  }
  Result<size_t> read(std::span<std::byte> into) override {
    if (pipe_->reset) return remote_error("connection reset");
    auto& in = pipe_->bytes[1 - side_];
    const size_t count = std::min({into.size(), in.size(), pipe_->piece});
    std::copy_n(in.begin(), count, into.begin());
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count));
    if (count == 0 && !into.empty() && pipe_->closed[1 - side_]) return remote_error("closed by peer");
    return count;
  }
  [[nodiscard]] transport::Address peer_address() const override { return peer_; }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool wants_write() const override { return false; }
  [[nodiscard]] Pipe& pipe() const { return *pipe_; }

 private:
  std::shared_ptr<Pipe> pipe_;
  int side_;
  transport::Address peer_;
};

class MemoryNetwork final : public transport::Network {
 public:
  std::vector<std::shared_ptr<Pipe>> pipes;  ///< every connection ever made, oldest first
  std::set<uint8_t> silent_hosts;            ///< connecting to them neither succeeds nor fails
  size_t piece = SIZE_MAX;                   ///< for new connections
  size_t capacity = 1 << 20;
  int accept_failures = 0;  ///< so many calls of accept() fail

  Result<std::unique_ptr<transport::Listener>> listen(const transport::Address& address) override {
    transport::Address at = address;
    if (at.port == 0) at.port = next_port_++;
    auto& waiting = doors_[key(at)];
    if (!waiting.expired()) return system_error("address in use");
    auto listener = std::make_unique<MemoryListener>(*this, at);
    waiting = listener->waiting;
    return std::unique_ptr<transport::Listener>(std::move(listener));
  }
  Result<std::unique_ptr<transport::Stream>> connect(const transport::Address& to, const transport::StreamOptions&) override {
    auto pipe = std::make_shared<Pipe>();
    pipe->piece = piece;
    pipe->capacity = capacity;
    pipes.push_back(pipe);
    auto stream = std::make_unique<MemoryStream>(pipe, 0, to);
    if (silent_hosts.contains(to.bytes[3])) {
      pipe->pending = true;
      return std::unique_ptr<transport::Stream>(std::move(stream));
    }
    const auto door = doors_[key(to)].lock();
    if (!door) return system_error("connection refused");
    door->push_back(std::make_unique<MemoryStream>(pipe, 1, address_of(99, next_port_++)));
    return std::unique_ptr<transport::Stream>(std::move(stream));
  }
  Result<std::vector<transport::Address>> local_addresses() override { return std::vector{address_of(1, 0)}; }

 private:
  using Waiting = std::deque<std::unique_ptr<transport::Stream>>;
  struct MemoryListener final : transport::Listener {
    MemoryListener(MemoryNetwork& owner, transport::Address where) : network(owner), at(where) {}
    Result<std::unique_ptr<transport::Stream>> accept() override {
      if (network.accept_failures > 0) {
        --network.accept_failures;
        return system_error("out of descriptors");
      }
      if (waiting->empty()) return std::unique_ptr<transport::Stream>();
      auto stream = std::move(waiting->front());
      waiting->pop_front();
      return stream;
    }
    [[nodiscard]] transport::Address address() const override { return at; }
    [[nodiscard]] int fd() const override { return -1; }

    MemoryNetwork& network;
    transport::Address at;
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
  };

  static std::string key(const transport::Address& address) { return transport::to_string(address); }

  std::map<std::string, std::weak_ptr<Waiting>> doors_;
  uint16_t next_port_ = 5000;
};

}  // namespace isthmus::testing
