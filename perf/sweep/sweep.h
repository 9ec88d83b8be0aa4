// SPDX-License-Identifier: Apache-2.0
// The whole of a *_perf program but its collective: options, launch, set-up, workers, report. Called by each program's main().
#pragma once

#include "collective.h"

namespace sweep {

/// Runs the sweep and returns the process's exit code (see options.h and failure.h).
int run_sweep(const Collective& collective, int argc, const char* const* argv);

}  // namespace sweep
