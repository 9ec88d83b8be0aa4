// SPDX-License-Identifier: Apache-2.0
// What schedulers tell the processes that they start: Slurm's variables and the file of Kubernetes' labels, as text. Called by the
// ladder. Fails on text of another form than the scheduler's own documentation gives.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/model.h"

namespace isthmus::topology {

/// SLURM_TOPOLOGY_ADDR ("core.leaf3.node17") by its pattern ("switch.switch.node"). `levels` says what the switches are, from the top
/// ("building,zone"; "-" for one that is no level): its last word is for the leaf. Empty: the leaf is the zone, and what is above it
/// nobody knows.
Result<std::vector<Claim>> slurm_claims(std::string_view address, std::string_view pattern, std::string_view levels);

/// The downward API's file of labels: key="value" lines. Kubernetes' zone is what has power and network of its own, our building.
Result<std::vector<Claim>> kubernetes_claims(std::string_view text, std::string_view path);

}  // namespace isthmus::topology
