// SPDX-License-Identifier: Apache-2.0
// sendrecv_perf: measures and verifies a ring shift by ncclSend and ncclRecv (see sweep/sweep.h).
#include "sweep/sweep.h"

int main(int argc, char** argv) { return sweep::run_sweep(sweep::kSendRecv, argc, argv); }
