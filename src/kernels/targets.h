// SPDX-License-Identifier: Apache-2.0
// The kernel tables of all instruction sets that this build contains, and what the CPU can run. Private to kernels/.
#pragma once

#include "kernels/reduce.h"

namespace isthmus::kernels {

extern const Target kScalarTarget;

}  // namespace isthmus::kernels
