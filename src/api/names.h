// SPDX-License-Identifier: Apache-2.0
// The ncclX names: weak aliases of the pncclX definitions, as in NCCL, so that a tool may define ncclX and call pncclX. Used at the
// end of each file of entry points.
#pragma once

#define ISTHMUS_NCCL_NAME(function) extern decltype(p##function) function __attribute__((weak, alias("p" #function)))
