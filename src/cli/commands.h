// SPDX-License-Identifier: Apache-2.0
// The subcommands of the `isthmus` tool. Each adds itself to the parser; when chosen it does its work and leaves an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/run/rank_exchange.h"

namespace isthmus::cli {

/// What a run of the tool comes to.
struct Outcome {
  int exit_code = 0;
};

/// Hidden options that the launcher's variables fill in.
void add_rank_options(CLI::App& command, RankWords& rank);

/// `command` is what followed "--" on the command line.
void add_run(CLI::App& app, const std::vector<std::string>& command, Outcome& outcome);
/// Not for users: what the launcher starts on other hosts.
void add_run_node(CLI::App& app, Outcome& outcome);
void add_settings(CLI::App& app, Outcome& outcome);
void add_algorithms(CLI::App& app, Outcome& outcome);
void add_plan(CLI::App& app, Outcome& outcome);
/// A command of `isthmus plan`.
void add_plan_make(CLI::App& plan, Outcome& outcome);
void add_explain(CLI::App& app, Outcome& outcome);
void add_probe(CLI::App& app, Outcome& outcome);
void add_topo(CLI::App& app, Outcome& outcome);
void add_aggregate(CLI::App& app, Outcome& outcome);
void add_federated(CLI::App& app, Outcome& outcome);

}  // namespace isthmus::cli
