// SPDX-License-Identifier: Apache-2.0
// A process's card: what others must know to reach it. Written by Process, carried by the bootstrap, read (as untrusted bytes) by every
// other process of the communicator. Reading fails on anything malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/host_identity.h"
#include "base/status.h"
#include "transport/interface.h"

namespace isthmus::exec {

struct ProcessCard {
  transport::ProcessId process{};
  uint64_t host = 0;
  std::string hostname;
  int32_t pid = 0;
  std::string region, site, zone;   ///< what they and the building are called, as far as the process knows; "": not known
  CpuSet cpus;                      ///< on which it may run; not told where that is more than 4096
  bool probes = false;              ///< it wants what lies between the ranks to be measured
  std::vector<std::byte> shm, tcp;  ///< the transports' own blobs; empty: not reachable that way

  [[nodiscard]] std::vector<std::byte> encode() const;
  static Result<ProcessCard> decode(std::span<const std::byte> bytes);
};

}  // namespace isthmus::exec
