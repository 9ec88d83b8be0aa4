// SPDX-License-Identifier: Apache-2.0
// `isthmus run`: starts N copies of a program on this machine or on several hosts, serves their exchange, passes their output and
// the user's signals on, and ends all of them when one fails. Never leaves a process behind. Knows nothing of the library.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace isthmus::cli {

struct RunOptions {
  int ranks = 0;
  std::string hosts;                     ///< "" : this machine
  std::string agent = "ssh {host}";      ///< how to reach a host: a shell command that runs the words put after it there
  std::vector<std::string> environment;  ///< "NAME" or "NAME=value" to pass on besides ISTHMUS_* and NCCL_*
  std::string directory;                 ///< "" : the current one
  std::string remote_isthmus;            ///< path of this tool on other hosts; "" : the same as here
  TimeNs grace_ns = 10 * kSecondNs;      ///< what the other ranks get to end by themselves after one has failed
  bool bind = true;                      ///< give each rank CPUs of its own, if its host has enough
  bool tag = false;                      ///< put "[rank] " before each line of output
  std::vector<std::string> command;
};

/// Runs to the end. Returns the exit code: that of the first rank that failed (128 + signal if killed), 0 if none did, 2 if the
/// options make no sense.
int run_launcher(const RunOptions& options);

}  // namespace isthmus::cli
