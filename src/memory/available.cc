// SPDX-License-Identifier: Apache-2.0
// available.h from /proc/meminfo and the memory controllers of control groups, versions 1 and 2. Called at set-up.
#include "memory/available.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace isthmus::memory {
namespace {

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

/// The number after `key` in a file of "key number" lines; 0 if there is none.
uint64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

uint64_t host_bytes(const std::string& root) {
  const uint64_t kibibytes = read_field(root + "/proc/meminfo", "MemAvailable:");
  return kibibytes == 0 ? UINT64_MAX : kibibytes << 10;
}

uint64_t group_bytes(const std::string& folder, const char* limit_file, const char* usage_file) {
  const auto limit = read_number(folder + limit_file);
  const auto usage = read_number(folder + usage_file);
  if (!limit || !usage) return UINT64_MAX;
  const std::string statistics = folder + "/memory.stat";
  const uint64_t cache = read_field(statistics, "active_file") + read_field(statistics, "inactive_file");
  const uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

}  // namespace

uint64_t available_bytes(const std::string& root) {
  uint64_t least = host_bytes(root);
  const std::string groups_folder = root + "/sys/fs/cgroup";
  const std::string memory_folder = groups_folder + "/memory";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "hierarchy:controllers:path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, group_bytes(groups_folder + path, "/memory.max", "/memory.current"));
    if (controllers == "memory")
      least = std::min(least, group_bytes(memory_folder + path, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
  }
  return least;
}

}  // namespace isthmus::memory
