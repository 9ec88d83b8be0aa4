// SPDX-License-Identifier: Apache-2.0
// Sharing out CPUs. See cpus.h.
#include "cli/run/cpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace isthmus::cli {

namespace {

int read_number(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = otherwise;
  return file >> number ? number : otherwise;
}

}  // namespace

std::vector<CpuPlace> read_cpu_places(const CpuSet& allowed) {
  std::vector<CpuPlace> places;
  for (int cpu = 0; cpu < static_cast<int>(allowed.size() * 64); ++cpu) {
    if ((allowed[static_cast<size_t>(cpu) / 64] >> cpu % 64 & 1) == 0) continue;
    const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    places.push_back(
        {.package = read_number(topology + "physical_package_id", 0), .core = read_number(topology + "core_id", cpu), .cpu = cpu});
  }
  return places;
}

std::vector<CpuSet> share_cpus(std::vector<CpuPlace> cpus, int ranks) {
  const auto parts = static_cast<size_t>(ranks);
  if (ranks < 2 || cpus.size() < parts) return {};
  std::sort(cpus.begin(), cpus.end());
  std::vector<CpuSet> shares(parts);
  for (size_t part = 0; part < parts; ++part) {
    for (size_t at = part * cpus.size() / parts; at < (part + 1) * cpus.size() / parts; ++at) {
      const auto cpu = static_cast<size_t>(cpus[at].cpu);
      shares[part].resize(std::max(shares[part].size(), cpu / 64 + 1));
      shares[part][cpu / 64] |= uint64_t{1} << cpu % 64;
    }
  }
  return shares;
}

}  // namespace isthmus::cli
