// SPDX-License-Identifier: Apache-2.0
// Facts from /proc (see host_facts.h).
#include "host_facts.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>

namespace sweep {
namespace {

/// The text after "name" and a colon in a file of such lines; "" without.
std::string value_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const size_t colon = line.find(':');
    const size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

double kibibytes_in(const char* path, const std::string& name) { return std::strtod(value_in(path, name).c_str(), nullptr); }

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

uint64_t host_hash() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return std::hash<std::string>{}(host_name() + boot_id);
}

std::string cpu_model() {
  const std::string model = value_in("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

int numa_node() {
  unsigned cpu = 0;
  unsigned node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : 0;
}

uint64_t available_memory_bytes() { return static_cast<uint64_t>(kibibytes_in("/proc/meminfo", "MemAvailable") * 1024); }

MemoryUse memory_use() {
  return {.now_mib = kibibytes_in("/proc/self/status", "VmRSS") / 1024, .peak_mib = kibibytes_in("/proc/self/status", "VmHWM") / 1024};
}

}  // namespace sweep
