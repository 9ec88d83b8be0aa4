// SPDX-License-Identifier: Apache-2.0
// Starting one rank: fork and exec with its own process group, so that it and what it starts can be signalled together, and with
// an order to the kernel to kill it should its node die. Starting fails with the program's name and the reason.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/host_identity.h"
#include "base/status.h"

namespace isthmus::cli {

struct ChildOrder {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  ///< "NAME=value", all of it
  std::string directory;
  bool inherit_input = false;  ///< else it reads /dev/null
  bool capture = false;        ///< else it writes where its node writes
  CpuSet cpus;                 ///< where it shall run; empty: wherever its node may
};

/// A started rank and this process's ends of its connections.
struct Child {
  pid_t pid = -1;
  Fd exchange;        ///< the socket whose other end is ISTHMUS_RUN_FD
  Fd output, errors;  ///< with `capture`
};

/// Adds "NAME=value", in place of another value of that name.
void set_variable(std::vector<std::string>& environment, const std::string& variable);

/// Starts the program; ISTHMUS_RUN_FD is added to its environment.
Result<Child> start_child(const ChildOrder& order);

}  // namespace isthmus::cli
