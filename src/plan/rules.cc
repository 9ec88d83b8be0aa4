// SPDX-License-Identifier: Apache-2.0
// Rule tables as text. Called by collectives/select.cc for the built-in table and the user's, and by perf/tune. A line that cannot be
// read fails with its number and the column of the word.
#include "plan/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"

namespace isthmus::plan {

namespace {

constexpr std::array<std::string_view, 3> kReachNames = {"process", "host", "network"};

/// Position of `name` among `names`, or an error that lists them.
template <typename Names>
Result<size_t> index_of(std::string_view what, std::string_view name, const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  return invalid_argument(fmt::format("\"{}\" is no {}; there are {}", name, what, join(names, ", ")));
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  names.reserve(kCollectives);
  for (int i = 0; i < kCollectives; ++i) names.push_back(isthmus::name_of(static_cast<Collective>(i)));
  return names;
}

/// "2-4", "2-" (no upper limit) or "2".
template <typename Number>
Status parse_range(std::string_view text, Number& min, Number& max) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Number>::max());
  const size_t dash = text.find('-');
  ISTHMUS_ASSIGN(const uint64_t first, parse_unsigned(text.substr(0, dash), kMost));
  uint64_t last = dash == std::string_view::npos ? first : kMost;
  if (dash != std::string_view::npos && dash + 1 < text.size()) {
    ISTHMUS_ASSIGN(last, parse_unsigned(text.substr(dash + 1), kMost));
  }
  if (first > last) return invalid_argument(fmt::format("the range {} ends before it begins", text));
  min = static_cast<Number>(first);
  max = static_cast<Number>(last);
  return {};
}

/// One word of a line; the first two are the collective and the reach, the rest may come in any order.
Status parse_word(std::string_view word, size_t index, Rule& rule) {
  if (index == 0) {
    ISTHMUS_ASSIGN(const size_t collective, index_of("collective", word, collective_names()));
    rule.collective = static_cast<Collective>(collective);
    return {};
  }
  if (index == 1) {
    ISTHMUS_ASSIGN(const size_t reach, index_of("reach", word, kReachNames));
    rule.reach = static_cast<Reach>(reach);
    return {};
  }
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    if (!rule.algorithm.empty()) return invalid_argument(fmt::format("\"{}\" is a second algorithm after \"{}\"", word, rule.algorithm));
    rule.algorithm = word;
    return {};
  }
  const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
  if (name == "ranks") return parse_range(value, rule.min_ranks, rule.max_ranks);
  if (name == "bytes") return parse_range(value, rule.min_bytes, rule.max_bytes);
  if (name == "across") {
    ISTHMUS_ASSIGN(rule.across, parse_across(value));
    return {};
  }
  if (name != "segments" && name != "leaders") {
    return invalid_argument(fmt::format("\"{}\" is not one of ranks=, bytes=, segments=, leaders=, across=", word));
  }
  ISTHMUS_ASSIGN(const uint64_t number, parse_unsigned(value, UINT32_MAX));
  (name == "segments" ? rule.segments : rule.leaders) = static_cast<uint32_t>(number);
  return {};
}

/// Appends the line's rule, if it has one.
Status parse_line(std::string_view line, size_t number, RuleTable& rules) {
  const std::string_view text = line.substr(0, line.find('#'));
  Rule rule;
  size_t words = 0;
  for (std::string_view piece : split(text, ' ')) {
    const auto column = static_cast<size_t>(piece.data() - line.data()) + 1;
    ISTHMUS_TRY(parse_word(piece, words++, rule).with_context(fmt::format("line {} column {}", number, column)));
  }
  if (words == 0) return {};
  if (rule.algorithm.empty()) return invalid_argument(fmt::format("line {} column {}: no algorithm is named", number, line.size() + 1));
  rules.push_back(std::move(rule));
  return {};
}

/// " ranks=2-4"; nothing where the range is everything.
template <typename Number>
std::string range_words(std::string_view name, Number min, Number max, Number least) {
  constexpr Number kMost = std::numeric_limits<Number>::max();
  if (max == kMost) return min == least ? "" : fmt::format(" {}={}-", name, min);
  return fmt::format(" {}={}-{}", name, min, max);
}

}  // namespace

std::string_view name_of(Reach reach) { return kReachNames[static_cast<size_t>(reach)]; }

Result<Across> parse_across(std::string_view name) {
  ISTHMUS_ASSIGN(const size_t index, index_of("way across sites", name, kAcrossNames));
  return static_cast<Across>(index);
}

Result<RuleTable> parse_rules(std::string_view text) {
  RuleTable rules;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) ISTHMUS_TRY(parse_line(line, ++number, rules));
  return rules;
}

std::string to_text(std::span<const Rule> rules) {
  std::string text;
  for (const Rule& rule : rules) {
    text += fmt::format("{} {}{}{} {}{}{}{}\n", isthmus::name_of(rule.collective), name_of(rule.reach),
                        range_words("ranks", rule.min_ranks, rule.max_ranks, 1),
                        range_words("bytes", rule.min_bytes, rule.max_bytes, uint64_t{0}), rule.algorithm,
                        rule.segments == 1 ? "" : fmt::format(" segments={}", rule.segments),
                        rule.leaders == 0 ? "" : fmt::format(" leaders={}", rule.leaders),
                        rule.across == Across::direct ? "" : fmt::format(" across={}", name_of(rule.across)));
  }
  return text;
}

}  // namespace isthmus::plan
