// SPDX-License-Identifier: Apache-2.0
// Where this process is, found without measuring and without the network: settings, then a topology file, Slurm, Kubernetes, and, if asked
// for, address prefixes. The first that names a level counts. Called once per process by the library, and by `isthmus topo`. Fails where
// a file that a setting names cannot be read or understood.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "topology/discover/place_file.h"
#include "topology/model.h"

namespace isthmus::topology {

/// Whether addresses can matter under these settings; finding them costs system calls.
bool needs_addresses(const Settings& settings);

/// `warnings` gets what was left aside and why, a line each; contradictions(place) says what the rungs disagree about.
Result<Place> find_place(const Settings& settings, const Self& self, std::vector<std::string>& warnings);

/// For logs: "region eu (ISTHMUS_REGION), building fra1 (/etc/topology.json: \"fra1-*\")".
std::string describe(const Place& place);

}  // namespace isthmus::topology
