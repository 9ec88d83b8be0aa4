// SPDX-License-Identifier: Apache-2.0
// What the machines of this room stand on: a network, proofs, a log, who this process is, randomness. Handed to them by whoever makes
// them; everything in it outlives them. Nothing here can fail.
#pragma once

#include "base/crypto.h"
#include "base/log.h"
#include "bootstrap/unique_id.h"
#include "transport/interface.h"

namespace isthmus::bootstrap {

struct Surroundings {
  transport::Network& network;
  const Crypto& crypto;
  const Logger& log;
  transport::ProcessId process{};  ///< this process
  RandomSource random = random_bytes;
};

}  // namespace isthmus::bootstrap
