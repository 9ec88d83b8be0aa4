// SPDX-License-Identifier: Apache-2.0
// Measuring what lies between the ranks of communicators that have just been made, where ISTHMUS_PROBE says so. Called by api/setup.cc,
// which hands the communicators out afterwards. Fails where a communicator fails meanwhile, or where it takes longer than a set-up may.
#pragma once

#include <memory>
#include <vector>

#include "api/library.h"

namespace isthmus::api {

struct Joined {
  std::unique_ptr<comm::Communicator> communicator;
  ncclComm_t* out;  ///< where its handle goes
};

/// Those that fail become null; the first failure is returned.
Status run_surveys(Library& library, exec::Driver::Lock& lock, std::vector<Joined>& joined);

}  // namespace isthmus::api
