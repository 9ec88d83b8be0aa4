// SPDX-License-Identifier: Apache-2.0
// text.h. Pure.
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace isthmus {
namespace {

template <typename Change>
std::string changed(std::string_view text, Change change) {
  std::string out(text);
  for (char& letter : out) letter = change(letter);
  return out;
}

struct Unit {
  std::string_view name;
  uint64_t factor;
};

/// A whole number followed by one of `units`, multiplied out; nothing on any other form or if the product exceeds `max`.
std::optional<uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units, uint64_t max) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string suffix = lower(trim(text.substr(static_cast<size_t>(end - text.data()))));
  for (const Unit& unit : units) {
    if (unit.name != suffix) continue;
    if (number > max / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string lower(std::string_view text) {
  return changed(text, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
}

std::string upper(std::string_view text) {
  return changed(text, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (const std::string_view piece = trim(text.substr(0, end)); !piece.empty()) pieces.push_back(piece);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(lines.back().size() + 1, text.size()));
  }
  return lines;
}

std::string join(std::span<const std::string_view> pieces, std::string_view separator) {
  std::string out;
  for (const std::string_view piece : pieces) {
    if (!out.empty()) out += separator;
    out += piece;
  }
  return out;
}

std::string number_ranges(std::span<const int32_t> ascending) {
  constexpr size_t kMaxPieces = 16;
  std::string out;
  size_t pieces = 0;
  for (size_t first = 0, last = 0; first < ascending.size(); first = last + 1) {
    if (pieces++ == kMaxPieces) return out + ",...";
    for (last = first; last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1;) ++last;
    if (!out.empty()) out += ',';
    out += last == first ? fmt::format("{}", ascending[first]) : fmt::format("{}-{}", ascending[first], ascending[last]);
  }
  return out;
}

std::string duration_text(TimeNs duration) {
  if (duration < kSecondNs) return fmt::format("{:.3g} ms", static_cast<double>(duration) / kMillisecondNs);
  return fmt::format("{:.6g} s", static_cast<double>(duration) / kSecondNs);
}

Result<uint64_t> parse_unsigned(std::string_view text, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > max) {
    return invalid_argument(fmt::format("a whole number from 0 to {} is accepted", max));
  }
  return value;
}

Result<TimeNs> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 7> kUnits = {{{"", kSecondNs},
                                                  {"s", kSecondNs},
                                                  {"ms", kMillisecondNs},
                                                  {"us", kMicrosecondNs},
                                                  {"ns", 1},
                                                  {"m", 60 * kSecondNs},
                                                  {"h", 3600 * kSecondNs}}};
  const auto value = parse_with_unit(text, kUnits, std::numeric_limits<TimeNs>::max());
  if (!value) return invalid_argument("a duration is accepted, such as 250ms, 30s, 2m or 1h");
  return static_cast<TimeNs>(*value);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  static constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                                   {"b", 1},
                                                   {"k", 1ull << 10},
                                                   {"kb", 1ull << 10},
                                                   {"kib", 1ull << 10},
                                                   {"m", 1ull << 20},
                                                   {"mb", 1ull << 20},
                                                   {"mib", 1ull << 20},
                                                   {"g", 1ull << 30},
                                                   {"gb", 1ull << 30},
                                                   {"gib", 1ull << 30},
                                                   {"t", 1ull << 40},
                                                   {"tb", 1ull << 40},
                                                   {"tib", 1ull << 40}}};
  const auto value = parse_with_unit(text, kUnits, std::numeric_limits<uint64_t>::max());
  if (!value) return invalid_argument("a number of bytes is accepted, such as 4096, 256K, 64M or 1G");
  return *value;
}

Result<bool> parse_bool(std::string_view text) {
  const std::string word = lower(text);
  for (const std::string_view yes : {"1", "true", "yes", "on"})
    if (word == yes) return true;
  for (const std::string_view no : {"0", "false", "no", "off"})
    if (word == no) return false;
  return invalid_argument("1 or 0 is accepted (also true, false, yes, no, on, off)");
}

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: the one being filled, the one before, and the one before that (for swaps).
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = text.size() / 3 + 1;  // more edits than that, and it is another word
  for (const std::string_view candidate : candidates) {
    const size_t least = std::max(text.size(), candidate.size()) - std::min(text.size(), candidate.size());
    if (least >= best_distance) continue;  // also keeps a line of thousands of characters from taking milliseconds
    const size_t distance = edit_distance(text, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace isthmus
