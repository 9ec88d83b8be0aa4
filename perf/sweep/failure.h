// SPDX-License-Identifier: Apache-2.0
// How a sweep gives up: thrown where something fails, caught once where a thread of the sweep began. Exit codes are nccl-tests'.
#pragma once

#include <string>

#include "nccl.h"

namespace sweep {

inline constexpr int kExitInternal = 1;
inline constexpr int kExitNccl = 3;
inline constexpr int kExitTimeout = 4;
inline constexpr int kExitUsage = 6;
inline constexpr int kExitWrongData = 7;

struct Failure {
  int exit_code = kExitInternal;
  std::string text;
};

/// Throws unless the library call that `what` names succeeded; the text carries the library's own account.
inline void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Failure{kExitNccl, std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr)};
}

}  // namespace sweep
