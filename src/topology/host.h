// SPDX-License-Identifier: Apache-2.0
// What is in a host, as much as matters for communication: packages, memories, caches that cores share, network devices, accelerators.
// Made by discover/host.h; shown by `isthmus topo`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isthmus::topology {

struct Part {
  std::string kind;          ///< "host", "package", "die", "numa", "l3", "l2", "network", "rdma", "accelerator"
  std::string name;          ///< "0", "eth0"; the model of a package
  uint64_t bytes = 0;        ///< of a memory or a cache
  int32_t cores = 0;         ///< within
  std::string cpus;          ///< within, such as "0-3,8"
  std::string model;         ///< in the maker's words; may be empty
  double link_gb_per_s = 0;  ///< of a device on PCI, one way; 0: not known
  std::vector<Part> children;
};

}  // namespace isthmus::topology
