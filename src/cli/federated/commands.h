// SPDX-License-Identifier: Apache-2.0
// The commands of `isthmus federated`, each in a file of its own.
#pragma once

#include "cli/commands.h"

namespace isthmus::cli {

void add_federated_simulate(CLI::App& federated, Outcome& outcome);
void add_federated_run(CLI::App& federated, Outcome& outcome);
void add_federated_plan(CLI::App& federated, Outcome& outcome);

}  // namespace isthmus::cli
