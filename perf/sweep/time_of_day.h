// SPDX-License-Identifier: Apache-2.0
// The local time in nccl-tests' form, for the table's timestamps and the JSON file.
#pragma once

#include <ctime>
#include <string>

namespace sweep {

/// "2025-12-31 23:59:59"
inline std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

}  // namespace sweep
