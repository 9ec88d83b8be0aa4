// SPDX-License-Identifier: Apache-2.0
// Whether one rank's declared dependencies order all steps that touch the same memory, one of them writing. Called by the
// symbolic checker.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// internal_error naming both steps. A receive may land at any time once its dependencies are complete, so it counts as a write
/// from then on. `plan` must be well formed.
Status check_races(const Plan& plan);

}  // namespace isthmus::plan
