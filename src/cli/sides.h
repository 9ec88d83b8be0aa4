// SPDX-License-Identifier: Apache-2.0
// Commands with two sides, --listen and --connect. Used by their command lines.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/commands.h"

namespace isthmus::cli {

/// Options of the other side are mistakes; those from the environment are not.
inline void refuse_options(const std::vector<CLI::Option*>& options, const CLI::App& command, const char* side) {
  for (const CLI::Option* option : options) {
    if (command.count(option->get_name()) > 0 && option->get_envname().empty()) {
      throw CLI::ValidationError(command.get_name(), fmt::format("{} is for {}", option->get_name(), side));
    }
  }
}

}  // namespace isthmus::cli
