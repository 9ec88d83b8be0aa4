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
inline constexpr int kExitBadValue = 255;

struct Failure {
  int exit_code = kExitInternal;
  std::string text;
  bool everywhere = false;  ///< every process fails alike, and the first says so for all
};

/// "ncclAllReduce: invalid argument: what the library says about it". Its advice where to look for details goes unsaid where they follow.
inline std::string failure_text(const std::string& what, std::string error, const std::string& details) {
  if (details.empty()) return what + ": " + error;
  if (const size_t advice = error.find(" (run with "); advice != std::string::npos) error.erase(advice);
  return what + ": " + error + ": " + details;
}

/// Throws unless the library call that `what` names succeeded; the text carries the library's own account.
inline void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Failure{kExitNccl, failure_text(what, ncclGetErrorString(result), ncclGetLastError(nullptr))};
}

}  // namespace sweep
