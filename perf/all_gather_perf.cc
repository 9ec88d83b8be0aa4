// SPDX-License-Identifier: Apache-2.0
// all_gather_perf: measures and verifies ncclAllGather (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kAllGather, argc, argv); }
