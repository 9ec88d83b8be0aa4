// SPDX-License-Identifier: Apache-2.0
// host_identity.h from /proc, the affinity mask and cgroup v2.
#include "base/host_identity.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <memory>

#include "base/crypto.h"
#include "base/hash.h"
#include "base/text.h"

namespace isthmus {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t namespace_inode(const char* name) {
  struct stat facts {};
  return stat(fmt::format("/proc/self/ns/{}", name).c_str(), &facts) == 0 ? facts.st_ino : 0;
}

HostFacts read_facts() {
  return {.boot_id = first_line("/proc/sys/kernel/random/boot_id"),
          .ipc_namespace = namespace_inode("ipc"),
          .pid_namespace = namespace_inode("pid"),
          .net_namespace = namespace_inode("net")};
}

bool complete(const HostFacts& facts) {
  return !facts.boot_id.empty() && facts.ipc_namespace != 0 && facts.pid_namespace != 0 && facts.net_namespace != 0;
}

/// An id that nobody else has, so that nobody shares memory with this process.
uint64_t lonely_id() {
  std::array<std::byte, 8> bytes{};
  if (!random_bytes(bytes).ok()) Writer(bytes).i32(getpid());
  return hash_bytes(bytes);
}

std::string read_hostname() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

/// What is not known may be any CPU.
bool overlap(const CpuSet& a, const CpuSet& b) {
  bool common = a.empty() || b.empty();
  for (size_t word = 0; word < std::min(a.size(), b.size()); ++word) common = common || (a[word] & b[word]) != 0;
  return common;
}

unsigned size_of(const CpuSet& set) {
  unsigned cpus = 0;
  for (const uint64_t word : set) cpus += static_cast<unsigned>(std::popcount(word));
  return cpus;
}

/// This process's group below /sys/fs/cgroup, "/..." ("" where there is no cgroup v2).
std::string cgroup_path() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return "";
}

/// The tightest quota of this process's group and those around it.
unsigned cpus_of_quotas() {
  unsigned cpus = UINT32_MAX;
  for (std::string path = cgroup_path();; path.erase(path.find_last_of('/'))) {
    if (const auto quota = cpus_of_quota(first_line(fmt::format("/sys/fs/cgroup{}/cpu.max", path)))) cpus = std::min(cpus, *quota);
    if (path.find('/') == std::string::npos) return cpus;
  }
}

}  // namespace

CpuSet read_cpu_set() {
  for (int cpus = 1024; cpus <= (1 << 16); cpus *= 2) {  // the kernel refuses masks shorter than its own
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<size_t>(cpus)),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t mask_bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    if (sched_getaffinity(0, mask_bytes, mask.get()) != 0) continue;
    CpuSet set(static_cast<size_t>(cpus) / 64);
    for (size_t cpu = 0; cpu < static_cast<size_t>(cpus); ++cpu) {
      if (CPU_ISSET_S(cpu, mask_bytes, mask.get())) set[cpu / 64] |= uint64_t{1} << cpu % 64;
    }
    while (!set.empty() && set.back() == 0) set.pop_back();
    return set;
  }
  return {};
}

uint64_t host_id_of(const HostFacts& facts) {
  return Hasher().add(facts.boot_id).add(facts.ipc_namespace).add(facts.pid_namespace).add(facts.net_namespace).value();
}

std::optional<unsigned> cpus_of_quota(std::string_view cpu_max) {
  const auto words = split(cpu_max, ' ');
  if (words.size() != 2) return std::nullopt;
  const auto quota = parse_unsigned(words[0], UINT32_MAX);
  const auto period = parse_unsigned(words[1], UINT32_MAX);
  if (!quota.ok() || !period.ok() || *period == 0) return std::nullopt;
  return std::max(1u, static_cast<unsigned>((*quota + *period - 1) / *period));
}

bool enough_cpus(const CpuSet& own, unsigned cpu_quota, std::span<const CpuSet> ranks) {
  CpuSet shared = own;
  std::vector<bool> competes(ranks.size());
  size_t competitors = 0;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (competes[rank] || !overlap(shared, ranks[rank])) continue;
      competes[rank] = grows = true;
      ++competitors;
      shared.resize(std::max(shared.size(), ranks[rank].size()));
      for (size_t word = 0; word < ranks[rank].size(); ++word) shared[word] |= ranks[rank][word];
    }
  }
  return competitors <= size_of(shared) && ranks.size() <= cpu_quota;
}

HostIdentity read_host_identity(const Settings& settings) {
  HostIdentity host{.hostname = read_hostname(), .pid = getpid(), .cpu_set = read_cpu_set(), .cpu_quota = cpus_of_quotas()};
  const HostFacts facts = read_facts();
  if (!settings.host_id.empty()) {
    host.host_id = hash_text(settings.host_id);
  } else if (complete(facts)) {
    host.host_id = host_id_of(facts);
  } else {
    host.host_id = lonely_id();
    host.warning = "/proc does not tell which host this is, so no memory is shared with other processes; set ISTHMUS_HOSTID to change that";
  }
  return host;
}

}  // namespace isthmus
