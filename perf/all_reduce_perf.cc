// SPDX-License-Identifier: Apache-2.0
// all_reduce_perf: measures and verifies ncclAllReduce (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kAllReduce, argc, argv); }
