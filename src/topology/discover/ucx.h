// SPDX-License-Identifier: Apache-2.0
// What UCX can reach: its transports over this host's devices, and those that it would take to another host. libucp and libuct are loaded
// when asked for, never linked; a host without them is no error. Of the library topology_host, which the tool and tests link. UCX's own
// figures of speed are not read: those of TCP are constants that know nothing of the way (docs/topology.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/host.h"

namespace isthmus::topology {

class Ucx {
 public:
  /// null where UCX is not installed, or Isthmus was built without its headers. Fails where it is there and does not start.
  static Result<std::unique_ptr<Ucx>> open();

  virtual ~Ucx() = default;

  /// A part "ucx" named by its version; in it "transport" parts such as "tcp/eth0", whose model is the kind of device: "network", "shared
  /// memory", "accelerator", "self".
  [[nodiscard]] virtual Part devices() const = 0;

  /// How others reach this process: bytes for lanes_to() of another one.
  [[nodiscard]] virtual Result<std::string> address() const = 0;

  /// The lanes that UCX would take to the process with that address, the one for small messages first: "tcp/eth0". Nothing is sent for it
  /// but what UCX does to connect, and nobody need answer. Fails where UCX knows no way, or the address is none of UCX's.
  [[nodiscard]] virtual Result<std::vector<std::string>> lanes_to(std::string_view address) const = 0;
};

/// The lanes in what ucp_ep_print_info writes, as above.
std::vector<std::string> lanes_of_listing(std::string_view listing);

}  // namespace isthmus::topology
