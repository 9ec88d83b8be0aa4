// SPDX-License-Identifier: Apache-2.0
// The clock, and waiting by it: what drives the machines of this room in a program. Used by api/ and cli/. Nothing here fails; a
// wait that a signal interrupts has ended.
#pragma once

#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "federated/contributor.h"
#include "transport/interface.h"

namespace isthmus::federated {

TimeNs clock_now();
/// Until one of the descriptors is ready, `due` has come or a signal was caught.
void wait_until(const std::vector<transport::Wait>& waits, TimeNs due);
/// Until nothing is under way: connecting, or the sum that was begun.
Status complete(Contributor& contributor);

}  // namespace isthmus::federated
