// SPDX-License-Identifier: Apache-2.0
// JSON as the tool's commands write it. Used by all of them; nothing here fails.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace isthmus::cli {

/// Names of files and hosts may hold bytes that are no UTF-8, which JSON must not; the library's own `dump` would throw. In their place
/// stands U+FFFD. `indent`: -1: one line.
template <typename Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace isthmus::cli
