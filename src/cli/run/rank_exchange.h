// SPDX-License-Identifier: Apache-2.0
// A rank's end of the exchange that `isthmus run` offers (exchange.h), for commands of the tool that find themselves to be ranks. The
// sweeps, which may not use src/, have an end of their own. Fails when the launcher or another rank is gone, or at the time limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace isthmus::cli {

/// What the launcher tells a rank, by the variables that exchange.h and run_command.cc name.
struct RankWords {
  int rank = -1;        ///< -1: not started by isthmus run
  int size = 0;         ///< ranks
  int local_rank = 0;   ///< among those of its host
  int descriptor = -1;  ///< of the exchange's socket

  [[nodiscard]] bool given() const { return rank >= 0 && rank < size && descriptor >= 0; }
};

/// Every rank's text, by rank. Texts may differ in length; all ranks call it the same number of times.
Result<std::vector<std::string>> exchange_texts(const RankWords& words, std::string_view text, TimeNs timeout_ns);

}  // namespace isthmus::cli
