// SPDX-License-Identifier: Apache-2.0
// reduce_scatter_perf: measures and verifies ncclReduceScatter (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kReduceScatter, argc, argv); }
