// SPDX-License-Identifier: Apache-2.0
// Sockets: the Network of the real world, over non-blocking TCP sockets of both families. Made once per Process; used by bootstrap/
// and by Tcp. Every failure names the address and the system's words; nothing here blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/interface.h"

namespace isthmus::transport {

struct SocketOptions {
  std::string ifname;        ///< NCCL_SOCKET_IFNAME
  std::string family;        ///< NCCL_SOCKET_FAMILY
  uint16_t port_first = 0;   ///< listen on ports port_first..port_last where the caller asks for any; 0: the system's choice
  uint16_t port_last = 0;    ///< inclusive
  StreamOptions accepted{};  ///< for streams that others open to us
};

class Sockets final : public Network {
 public:
  explicit Sockets(SocketOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<Listener>> listen(const Address& address) override;
  Result<std::unique_ptr<Stream>> connect(const Address& to, const StreamOptions& options) override;
  Result<std::vector<Address>> local_addresses() override;

 private:
  SocketOptions options_;
};

}  // namespace isthmus::transport
