// SPDX-License-Identifier: Apache-2.0
// Which CPUs each rank of a host gets: equal runs of them in the order of packages and cores, so that neighbours in one core mostly stay
// together. Ranks that wait spin, and two that start on one CPU would keep each other from working until the system moves one of them.
// Called by the node. What the system does not tell counts as one core for each CPU.
#pragma once

#include <tuple>
#include <vector>

#include "base/host_identity.h"

namespace isthmus::cli {

/// Where a CPU sits.
struct CpuPlace {
  int package = 0, core = 0, cpu = 0;
  friend bool operator<(const CpuPlace& a, const CpuPlace& b) {
    return std::tie(a.package, a.core, a.cpu) < std::tie(b.package, b.core, b.cpu);
  }
};

/// The allowed CPUs with their places, as /sys tells them.
std::vector<CpuPlace> read_cpu_places(const CpuSet& allowed);

/// One set for each rank; nothing if there are fewer CPUs than ranks, or only one rank.
std::vector<CpuSet> share_cpus(std::vector<CpuPlace> cpus, int ranks);

}  // namespace isthmus::cli
