// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate --connect`: one rank that contributes made-up vectors and checks what it gets. Every rank's vector follows from the
// seed, so that each can compute what the sum should be. Returns the exit code: 1 where a round failed or a result is wrong.
#pragma once

#include <string>

#include "cli/aggregate/premises.h"

namespace isthmus::cli {

struct LoadWords {
  MeetingWords meeting;
  uint32_t rank = 0;
  double weight = 1;
  std::string count = "1M", type = "float", op = "avg", data = "gaussian", delay = "0", timeout = "0", reach = "30s";
  uint64_t rounds = 1, seed = 1;
  bool check = true;
};

int load(const LoadWords& words);

}  // namespace isthmus::cli
