// SPDX-License-Identifier: Apache-2.0
// Who started this process, and as which of how many: the one place of the sweeps that reads the environment. Cannot fail: what
// is not there, or not a number, means "started alone".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sweep {

enum class Launcher { none, isthmus_run, open_mpi, mpich };

struct LaunchEnvironment {
  Launcher launcher = Launcher::none;
  int rank = 0;                     ///< as the launcher says; for messages before ranks know each other, and isthmus run
  int size = 1;                     ///< isthmus run only; MPI is asked
  int exchange_descriptor = -1;     ///< isthmus run: the socket to the launcher
  std::optional<double> min_busbw;  ///< NCCL_TESTS_MIN_BW, GB/s
  std::vector<std::string> report;  ///< "NAME=value" of the variables that matter to a measurement, for the JSON file
};

LaunchEnvironment read_launch_environment();

}  // namespace sweep
