// SPDX-License-Identifier: Apache-2.0
// The node: what `isthmus run` runs once on each host. It starts the host's ranks, carries their exchange and output to the
// launcher and signals to them, and reports how they ended. When the launcher is gone it kills them; it leaves no process behind.
// Started by the launcher, on this machine by fork, elsewhere as `isthmus run-node` by the agent.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace isthmus::cli {

/// What a node is told to do.
struct NodeOrder {
  int size = 0;              ///< of the whole job
  int first = 0, count = 0;  ///< ranks here
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< added to the node's own, "NAME=value"
  std::string directory;
  bool capture = false;        ///< carry the ranks' output to the launcher
  bool inherit_input = false;  ///< rank 0 reads what the node reads
  bool bind = true;            ///< give each rank CPUs of its own, if there are enough

  [[nodiscard]] std::string to_json() const;
  static Result<NodeOrder> from_json(const std::string& text);
};

/// Serves the launcher at the other end of the descriptors until all ranks have ended. Returns the node's exit code.
int run_node(Fd in, Fd out);

}  // namespace isthmus::cli
