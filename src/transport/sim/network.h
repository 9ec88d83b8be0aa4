// SPDX-License-Identifier: Apache-2.0
// The Network of one simulated host. Private to sim/; SimWorld::network() hands it out. Fails as the system would.
#pragma once

#include <memory>
#include <vector>

#include "base/fifo.h"
#include "transport/sim/connection.h"
#include "transport/sim/state.h"

namespace isthmus::transport::sim {

class SimListener final : public Listener {
 public:
  SimListener(State& state, SimHost host, const Address& address);
  ~SimListener() override;

  /// A client has knocked; false when too many wait already.
  bool offer(std::shared_ptr<Connection> connection);
  Result<std::unique_ptr<Stream>> accept() override;
  [[nodiscard]] Address address() const override { return address_; }
  [[nodiscard]] int fd() const override { return -1; }

 private:
  State& state_;
  SimHost host_;
  Address address_;
  Fifo<std::shared_ptr<Connection>> waiting_;
};

class SimNetwork final : public Network {
 public:
  SimNetwork(State& state, SimHost host) : state_(state), host_(host) {}

  Result<std::unique_ptr<Listener>> listen(const Address& address) override;
  Result<std::unique_ptr<Stream>> connect(const Address& to, const StreamOptions& options) override;
  Result<std::vector<Address>> local_addresses() override;

 private:
  [[nodiscard]] Status check_alive() const;

  State& state_;
  SimHost host_;
};

}  // namespace isthmus::transport::sim
