// SPDX-License-Identifier: Apache-2.0
// The text form of a THC configuration. Called where settings, rules and command lines name a codec; fails with invalid_argument
// that says which part is wrong and what is allowed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "codec/thc.h"

namespace isthmus::codec {
namespace {

constexpr std::string_view kKeys[] = {"b", "g", "p", "group", "layout", "dither", "prescale", "ef"};

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return invalid_argument(fmt::format("'{}' is no number", text));
  }
  return value;
}

/// "1/32" or "0.03125".
Result<double> parse_probability(std::string_view text) {
  const size_t slash = text.find('/');
  ISTHMUS_ASSIGN(const double over, parse_number(trim(text.substr(0, slash))));
  if (slash == std::string_view::npos) return over;
  ISTHMUS_ASSIGN(const double under, parse_number(trim(text.substr(slash + 1))));
  return over / under;
}

/// True for `yes`, false for `no`.
Result<bool> parse_choice(std::string_view text, std::string_view yes, std::string_view no) {
  if (text != yes && text != no) return invalid_argument(fmt::format("'{}', but it is {} or {}", text, yes, no));
  return text == yes;
}

Status set_number(uint32_t& to, std::string_view value, uint64_t max) {
  ISTHMUS_ASSIGN(const uint64_t number, parse_unsigned(value, max));
  to = static_cast<uint32_t>(number);
  return {};
}

Status set_flag(bool& to, Result<bool> value) {
  if (value.ok()) to = value.value();
  return value.status();
}

Status set(ThcConfig& config, std::string_view key, std::string_view value) {
  if (key == "b") {
    ISTHMUS_TRY(set_number(config.bits, value, 8));
    if (config.bits == 2 || config.bits == 3 || config.bits == 4 || config.bits == 8) return {};
    return invalid_argument("an index has 2, 3, 4 or 8 bits");
  }
  if (key == "g") return set_number(config.granularity, value, 255);
  if (key == "p") {
    ISTHMUS_ASSIGN(config.overflow, parse_probability(value));
    if (config.overflow >= 1e-9 && config.overflow <= 0.125) return {};
    return invalid_argument("the probability of clamping is from 1e-9 to 1/8");
  }
  if (key == "group") {
    ISTHMUS_TRY(set_number(config.group, value, kMaxGroup));
    if (config.group >= kMinGroup && (config.group & (config.group - 1)) == 0) return {};
    return invalid_argument(fmt::format("a group is a power of two from {} to {} elements", kMinGroup, kMaxGroup));
  }
  if (key == "layout") {
    ISTHMUS_ASSIGN(const bool columns, parse_choice(value, "columns", "blocks"));
    config.layout = columns ? ThcLayout::columns : ThcLayout::blocks;
    return {};
  }
  if (key == "dither") return set_flag(config.correlated, parse_choice(value, "correlated", "private"));
  if (key == "prescale") return set_flag(config.prescale, parse_bool(value));
  return set_flag(config.feedback, parse_bool(value));
}

std::string probability_text(double p) {
  const double inverse = std::round(1 / p);
  return 1 / inverse == p ? fmt::format("1/{:.0f}", inverse) : fmt::format("{}", p);
}

}  // namespace

Result<ThcConfig> parse_thc(std::string_view text) {
  text = trim(text);
  const size_t colon = text.find(':');
  if (trim(text.substr(0, colon)) != "thc") return invalid_argument(fmt::format("'{}' does not begin with thc", text));
  ThcConfig config;
  bool prescale_given = false;
  for (const std::string_view part : split(colon == std::string_view::npos ? "" : text.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    const bool known = std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
    if (!known || equals == std::string_view::npos) {
      return invalid_argument(fmt::format("'{}' in '{}': what can be set is {}, each as name=value", part, text, join(kKeys, ", ")));
    }
    if (Status status = set(config, key, trim(part.substr(equals + 1))); !status.ok()) {
      return status.with_context(fmt::format("'{}' in '{}'", part, text));
    }
    prescale_given |= key == "prescale";
  }
  if (!prescale_given) config.prescale = !config.feedback;
  return config;
}

std::string to_text(const ThcConfig& config) {
  const ThcConfig usual;
  std::vector<std::string> parts;
  if (config.bits != usual.bits) parts.push_back(fmt::format("b={}", config.bits));
  if (config.granularity != 0) parts.push_back(fmt::format("g={}", config.granularity));
  if (config.overflow != 0) parts.push_back(fmt::format("p={}", probability_text(config.overflow)));
  if (config.group != usual.group) parts.push_back(fmt::format("group={}", config.group));
  if (config.layout != usual.layout) parts.emplace_back("layout=columns");
  if (!config.correlated) parts.emplace_back("dither=private");
  if (config.prescale == config.feedback) parts.push_back(fmt::format("prescale={}", config.prescale ? "on" : "off"));
  if (config.feedback) parts.emplace_back("ef=on");
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return parts.empty() ? "thc" : "thc:" + join(views, ",");
}

}  // namespace isthmus::codec
