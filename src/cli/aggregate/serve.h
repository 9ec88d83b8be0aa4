// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate --listen`: runs an aggregator until its last round or a signal, and prints what happens. Returns the exit code.
#pragma once

#include <string>

#include "cli/aggregate/premises.h"

namespace isthmus::cli {

struct ServeWords {
  MeetingWords meeting;
  uint32_t quorum = 0;  ///< 0: all
  std::string deadline = "1s", limit = "60s", memory = "1G", chunk = "256K";
  uint64_t rounds = 0;
  uint32_t keep = 2;
};

int serve(const ServeWords& words);

}  // namespace isthmus::cli
