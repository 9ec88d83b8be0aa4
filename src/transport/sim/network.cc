// SPDX-License-Identifier: Apache-2.0
// Streams and listeners over simulated connections. Fails as the system would: taken ports, unknown hosts, a crashed host.
#include "transport/sim/network.h"

#include <fmt/format.h>

namespace isthmus::transport::sim {

namespace {

constexpr size_t kBacklog = 1024;

class SimStream final : public Stream {
 public:
  SimStream(std::shared_ptr<Connection> connection, int end) : connection_(std::move(connection)), end_(end) {}
  ~SimStream() override { connection_->close(end_); }

  Result<size_t> write(std::span<const std::byte> bytes) override { return connection_->write(end_, bytes, {}); }
  Result<size_t> write2(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return connection_->write(end_, first, second);
  }
  Result<size_t> read(std::span<std::byte> bytes) override { return connection_->read(end_, bytes); }
  [[nodiscard]] Address peer_address() const override { return connection_->peer_address(end_); }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool wants_write() const override { return connection_->wants_write(end_); }

 private:
  std::shared_ptr<Connection> connection_;
  int end_;
};

bool is_any(const Address& address) { return address.bytes == Address{}.bytes; }
bool is_loopback(const Address& address) { return address.family == 4 && address.bytes[0] == 127; }

}  // namespace

SimListener::SimListener(State& state, SimHost host, const Address& address) : state_(state), host_(host), address_(address) {
  state_.hosts[host_]->listeners[address_.port] = this;
}

SimListener::~SimListener() {
  auto& listeners = state_.hosts[host_]->listeners;
  if (const auto mine = listeners.find(address_.port); mine != listeners.end() && mine->second == this) listeners.erase(mine);
  while (!waiting_.empty()) waiting_.pop()->close(Connection::kServer);
}

bool SimListener::offer(std::shared_ptr<Connection> connection) {
  if (waiting_.size() >= kBacklog) return false;
  waiting_.push(std::move(connection));
  return true;
}

Result<std::unique_ptr<Stream>> SimListener::accept() {
  if (waiting_.empty()) return std::unique_ptr<Stream>();
  return std::unique_ptr<Stream>(std::make_unique<SimStream>(waiting_.pop(), Connection::kServer));
}

Status SimNetwork::check_alive() const {
  const HostState& host = *state_.hosts[host_];
  return host.crashed ? system_error(fmt::format("host {} has crashed", host.name)) : Status();
}

Result<std::unique_ptr<Listener>> SimNetwork::listen(const Address& address) {
  ISTHMUS_TRY(check_alive());
  HostState& host = *state_.hosts[host_];
  Address at = host.address;
  if (!is_any(address) && !is_loopback(address) && address.bytes != at.bytes) {
    return system_error(fmt::format("listen on {}: Cannot assign requested address", to_string(address)));
  }
  at.port = address.port != 0 ? address.port : host.next_port++;
  if (host.listeners.contains(at.port)) return system_error(fmt::format("listen on {}: Address already in use", to_string(at)));
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(state_, host_, at));
}

Result<std::unique_ptr<Stream>> SimNetwork::connect(const Address& to, const StreamOptions& options) {
  ISTHMUS_TRY(check_alive());
  SimHost server = host_;
  if (!is_loopback(to)) {
    server = 0;
    while (server < state_.hosts.size() && state_.hosts[server]->address.bytes != to.bytes) ++server;
  }
  if (server == state_.hosts.size()) return remote_error(fmt::format("connect to {}: No route to host", to_string(to)));
  auto connection = std::make_shared<Connection>(state_, host_, server, to.port, options);
  state_.connections.push_back(connection);
  connection->open();
  return std::unique_ptr<Stream>(std::make_unique<SimStream>(std::move(connection), Connection::kClient));
}

Result<std::vector<Address>> SimNetwork::local_addresses() {
  ISTHMUS_TRY(check_alive());
  return std::vector<Address>{state_.hosts[host_]->address};
}

}  // namespace isthmus::transport::sim
