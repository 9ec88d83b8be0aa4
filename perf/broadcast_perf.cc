// SPDX-License-Identifier: Apache-2.0
// broadcast_perf: measures and verifies ncclBroadcast (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kBroadcast, argc, argv); }
