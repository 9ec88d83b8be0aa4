// SPDX-License-Identifier: Apache-2.0
// Which host this process is on, as far as sharing memory is concerned, and what it may use of it. Read once by Process; the
// simulator makes its own values. Nothing here fails: what the kernel hides is replaced so that ranks rather share too little.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace isthmus {

/// CPU i is bit i % 64 of word i / 64; no zero word at the end. Empty: not known.
using CpuSet = std::vector<uint64_t>;

/// The CPUs that this process may run on.
CpuSet read_cpu_set();

struct HostIdentity {
  uint64_t host_id = 0;             ///< processes with equal ids may share memory and read each other's
  std::string hostname;             ///< for messages only; may be qualified
  int pid = 0;                      ///< in this process's PID namespace, which equal host_ids have in common
  CpuSet cpu_set;                   ///< the affinity mask
  unsigned cpu_quota = UINT32_MAX;  ///< so many CPUs' time the cgroup grants, rounded up
  std::string warning;              ///< "" or what could not be found out and what follows from that
};

/// What makes a host: one running kernel, and the namespaces that shared memory, process ids and loopback addresses live in.
struct HostFacts {
  std::string boot_id;
  uint64_t ipc_namespace = 0, pid_namespace = 0, net_namespace = 0;  ///< inode numbers of /proc/self/ns/*
};
uint64_t host_id_of(const HostFacts& facts);

/// Is there a CPU for every rank that this process competes with, itself included? `ranks` are the sets of all ranks of the host, own
/// ones included; ranks compete whose sets overlap, directly or by way of others'. Launchers bind ranks to different CPUs, or leave all
/// of them free. A quota is shared by all ranks of the host, for what is known here.
bool enough_cpus(const CpuSet& own, unsigned cpu_quota, std::span<const CpuSet> ranks);

/// CPUs that a cgroup's "cpu.max" ("200000 100000", "max 100000") grants, rounded up; nothing if unlimited or malformed.
std::optional<unsigned> cpus_of_quota(std::string_view cpu_max);

/// ISTHMUS_HOSTID if set, else the kernel's facts. Where /proc does not tell them, an id that no other process has.
HostIdentity read_host_identity(const Settings& settings);

}  // namespace isthmus
