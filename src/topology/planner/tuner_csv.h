// SPDX-License-Identifier: Apache-2.0
// NCCL's example tuner reads a table of comma-separated values: collective, least and most bytes, algorithm, protocol, channels, nodes,
// ranks, pipelined operations, registered buffers. A plan can be written as one, and a table be read as pins. NCCL has fewer algorithms
// than we: a ring is a ring there, everything else is its tree. Called by `isthmus plan export` and `import`. Reading fails with the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/planner/plan_file.h"

namespace isthmus::topology {

std::string to_tuner_csv(const PlanFile& file, int32_t hosts);

/// The lines that are about a job of so many hosts and ranks, as pins. `warnings` gets what means nothing here.
Result<std::vector<Pin>> parse_tuner_csv(std::string_view text, const Layout& layout, std::vector<std::string>& warnings);

}  // namespace isthmus::topology
