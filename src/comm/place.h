// SPDX-License-Identifier: Apache-2.0
// Where this process is, as topology's ladder finds it with what transports know of this host. Called when the library is set up, and by
// `isthmus topo`. Fails on settings and files that make no sense.
#pragma once

#include <string>
#include <vector>

#include "base/host_identity.h"
#include "base/settings.h"
#include "topology/discover/ladder.h"
#include "transport/interface.h"

namespace isthmus::comm {

/// As topology::find_place, which says what `warnings` are. The network is asked for its addresses only where they can matter.
Result<topology::Place> find_own_place(const Settings& settings, const HostIdentity& host, transport::Network& network,
                                       std::vector<std::string>& warnings);

}  // namespace isthmus::comm
