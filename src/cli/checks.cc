// SPDX-License-Identifier: Apache-2.0
// checks.h.
#include "cli/checks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/text.h"

namespace isthmus::cli {

CLI::Validator finite_in(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && end == text.c_str() + text.size();
    if (is_number && value >= least && value <= most) return "";
    return fmt::format("{}: a number from {} to {} is accepted", text, least, most);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", least, most)};
}

CLI::Validator whole_up_to(uint64_t most) {
  const auto check = [most](std::string& text) -> std::string {
    const auto value = parse_unsigned(text, most);
    if (!value.ok()) return fmt::format("{}: {}", text, value.status().text());
    text = fmt::format("{}", *value);  // leading zeros would make it octal
    return "";
  };
  return {check, ""};
}

}  // namespace isthmus::cli
