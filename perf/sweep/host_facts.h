// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this machine and this process, for the header and the memory limit. What cannot be found
// out is 0 or "unknown".
#pragma once

#include <cstdint>
#include <string>

namespace sweep {

std::string host_name();
/// Alike for processes of one machine, different for others.
uint64_t host_hash();
std::string cpu_model();
/// The NUMA node of the CPU that the caller runs on.
int numa_node();
/// Memory that new buffers could take, in bytes.
uint64_t available_memory_bytes();

struct MemoryUse {
  double now_mib = 0, peak_mib = 0;
};
MemoryUse memory_use();

}  // namespace sweep
