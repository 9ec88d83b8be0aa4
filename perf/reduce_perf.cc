// SPDX-License-Identifier: Apache-2.0
// reduce_perf: measures and verifies ncclReduce (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kReduce, argc, argv); }
