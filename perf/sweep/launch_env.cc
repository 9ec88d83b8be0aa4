// SPDX-License-Identifier: Apache-2.0
// The launchers' variables (see launch_env.h).
#include "launch_env.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace sweep {
namespace {

std::optional<int> number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

/// Variables that steer this library, its peers and its launchers; others may hold secrets and are nobody's business.
std::vector<std::string> variables_that_matter() {
  static constexpr std::array<std::string_view, 7> kPrefixes = {"ISTHMUS_", "NCCL_", "OMPI_MCA_", "OMPI_COMM_WORLD_",
                                                                "PMI_",     "UCX_",  "OMP_"};
  std::vector<std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (std::string_view prefix : kPrefixes) {
      if (text.substr(0, prefix.size()) == prefix) found.emplace_back(text);
    }
  }
  return found;
}

}  // namespace

LaunchEnvironment read_launch_environment() {
  LaunchEnvironment result;
  const auto rank = number("ISTHMUS_RUN_RANK");
  const auto size = number("ISTHMUS_RUN_SIZE");
  const auto descriptor = number("ISTHMUS_RUN_FD");
  if (rank && size && descriptor) {
    result.launcher = Launcher::isthmus_run;
    result.rank = *rank;
    result.size = *size;
    result.exchange_descriptor = *descriptor;
  } else if (const auto open_mpi_rank = number("OMPI_COMM_WORLD_RANK")) {
    result.launcher = Launcher::open_mpi;
    result.rank = *open_mpi_rank;
  } else if (const auto mpich_rank = number("PMI_RANK")) {
    result.launcher = Launcher::mpich;
    result.rank = *mpich_rank;
  }
  if (const char* text = std::getenv("NCCL_TESTS_MIN_BW"); text != nullptr) result.min_busbw = std::strtod(text, nullptr);
  result.report = variables_that_matter();
  return result;
}

}  // namespace sweep
