// SPDX-License-Identifier: Apache-2.0
// See place.h.
#include "comm/place.h"

namespace isthmus::comm {

Result<topology::Place> find_own_place(const Settings& settings, const HostIdentity& host, transport::Network& network,
                                       std::vector<std::string>& warnings) {
  topology::Self self{.host_id = host.host_id, .hostname = host.hostname, .addresses = {}};
  if (topology::needs_addresses(settings)) {
    const auto addresses = network.local_addresses();
    if (!addresses.ok()) return addresses.status().with_context("finding this process's place by its addresses");
    for (const transport::Address& address : *addresses) self.addresses.push_back({.bytes = address.bytes, .family = address.family});
  }
  return topology::find_place(settings, self, warnings);
}

}  // namespace isthmus::comm
