// SPDX-License-Identifier: Apache-2.0
// Communicators on their way: what ncclCommInitRank and ncclCommSplit begin, and what they (or the outermost ncclGroupEnd) complete.
// Used by api/ under the driver's lock. Results are written only when everything a group set up has succeeded or failed.
#pragma once

#include <memory>
#include <vector>

#include "comm/join.h"
#include "comm/split.h"
#include "nccl.h"

namespace isthmus::api {

class Library;

/// The set-ups of one call or one group.
struct PendingSetup {
  struct Joining {
    std::shared_ptr<comm::Join> join;
    ncclComm_t* out;
  };
  struct Splitting {
    std::unique_ptr<comm::Split> split;
    ncclComm_t* out;
  };
  std::vector<Joining> joins;
  std::vector<Splitting> splits;

  [[nodiscard]] bool empty() const { return joins.empty() && splits.empty(); }
  void clear();
};

/// Waits for all of it and writes the handles; the first failure is returned, after the others have ended too.
Status complete(Library& library, exec::Driver::Lock& lock, PendingSetup& pending);

}  // namespace isthmus::api
