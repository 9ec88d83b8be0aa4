// SPDX-License-Identifier: Apache-2.0
// `isthmus federated`: cohorts of clients whose data drift.
#include "cli/federated/commands.h"

namespace isthmus::cli {

void add_federated(CLI::App& app, Outcome& outcome) {
  CLI::App* federated = app.add_subcommand("federated", "Clusters clients whose data drift: runs, simulates, plans");
  federated->require_subcommand(1);
  add_federated_run(*federated, outcome);
  add_federated_simulate(*federated, outcome);
  add_federated_plan(*federated, outcome);
}

}  // namespace isthmus::cli
