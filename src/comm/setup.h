// SPDX-License-Identifier: Apache-2.0
// How communicators come to be: all ranks in this process, or one rank joining through the bootstrap. Called by api/ under the
// driver's lock; joining is a state machine that the driver polls. Fails with the reason and who is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "topology/planner/plan_file.h"

namespace isthmus::comm {

/// What communicators of one process share.
struct Context {
  exec::Process& process;
  const collectives::Selector& selector;
  const topology::PlanFile* plan = nullptr;  ///< for communicators that it fits; null: none
};

/// A communicator whose ranks all live in this process; entry r is rank r, and reports `devices[r]`.
Result<std::vector<std::unique_ptr<Communicator>>> create_local(const Context& context, const std::vector<int32_t>& devices);

/// Where the ranks are, as far as their cards tell.
topology::Layout layout_of(const Membership& membership);
/// Sites and divisions, from the ranks' cards.
void find_sites(Membership& membership);

/// From its next call on the communicator goes by the plan, after the user's rules and before the built-in ones.
void follow_plan(const Context& context, Communicator& communicator, const topology::PlanFile& plan);

/// Makes rank `membership.rank`'s communicator once all cards are known: finds the way to every rank and opens the endpoint.
Result<std::unique_ptr<Communicator>> open_communicator(const Context& context, Membership membership);

}  // namespace isthmus::comm
