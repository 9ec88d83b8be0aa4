// SPDX-License-Identifier: Apache-2.0
// A host as one level, where hwloc is not at hand. See host.h.
#include <bit>

#include "base/host_identity.h"
#include "base/text.h"
#include "topology/discover/host.h"

namespace isthmus::topology {

Result<Part> read_host(const HostSource& source) {
  if (!source.synthetic.empty() || !source.xml.empty()) {
    return invalid_usage("this build of Isthmus has no hwloc, which reads such descriptions: install libhwloc-dev and build again");
  }
  std::vector<int32_t> cpus;
  const CpuSet set = read_cpu_set();
  for (size_t cpu = 0; cpu < set.size() * 64; ++cpu) {
    if ((set[cpu / 64] >> cpu % 64 & 1) != 0) cpus.push_back(static_cast<int32_t>(cpu));
  }
  return Part{.kind = "host", .cpus = number_ranges(cpus), .model = "built without hwloc, which would say more"};
}

}  // namespace isthmus::topology
