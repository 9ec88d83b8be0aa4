// SPDX-License-Identifier: Apache-2.0
// Whether one rank's plan is well formed: every index in range, operands as their step's kind wants them, dependencies before
// their steps, slots and message numbers consistent. Called by the checkers and the cost walk before they run plans.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// internal_error naming rank, step and what is wrong.
Status check_form(const Plan& plan);

}  // namespace isthmus::plan
