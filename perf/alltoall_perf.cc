// SPDX-License-Identifier: Apache-2.0
// alltoall_perf: measures and verifies ncclAlltoAll (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kAllToAll, argc, argv); }
