// SPDX-License-Identifier: Apache-2.0
// Signals that ask a command to end, as a descriptor that loops can wait for. A wall. Nothing here fails: without the descriptor signals
// do what they usually do.
#pragma once

#include "base/fd.h"

namespace isthmus::cli {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT only make this readable.
Fd ending_signals();
/// The signal that has come since, or 0.
int pending_signal(const Fd& signals);

}  // namespace isthmus::cli
