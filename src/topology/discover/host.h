// SPDX-License-Identifier: Apache-2.0
// What is in this host, by hwloc where Isthmus was built with it (host_hwloc.cc), else as one level (host_plain.cc). A library of its own:
// the tool and tests link it, libnccl.so.2 does not. Fails where hwloc cannot read what it is given.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/host.h"

namespace isthmus::topology {

/// Instead of the machine, for tests: a description in hwloc's words ("pack:2 [numa] l3:1 core:4 pu:2"), or its XML.
struct HostSource {
  std::string synthetic;
  std::string xml;
};

/// Without a source: the machine that this process runs on, or what hwloc's own variables (HWLOC_XMLFILE, HWLOC_SYNTHETIC) name. The
/// whole host's name is left empty.
Result<Part> read_host(const HostSource& source = {});

}  // namespace isthmus::topology
