// SPDX-License-Identifier: Apache-2.0
// The rows of the settings table; only settings.cc and its tests read them. Everything else goes through settings.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace isthmus {

struct SettingDefinition {
  /// Stores the parsed text; adds to `notes` what it understood but left aside. On failure the text says what is accepted.
  using Parse = Status (*)(std::string_view text, Settings& settings, std::vector<std::string>& notes);

  std::string_view name;
  std::string_view nccl_name;  ///< the NCCL_* name that means the same; "": none
  std::string_view default_text;
  std::string_view doc;
  Parse parse;
  Parse parse_nccl = nullptr;  ///< where NCCL's grammar differs
};

std::span<const SettingDefinition> setting_definitions();

/// NCCL's variables that have no meaning here, sorted.
std::span<const std::string_view> unused_nccl_names();

}  // namespace isthmus
