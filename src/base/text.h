// SPDX-License-Identifier: Apache-2.0
// Small text helpers: splitting, numbers with units, the nearest of several names. Used by the settings table, rule tables and the
// tools. Parsers return invalid_argument whose text says what is accepted, without naming the setting (the caller does).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace isthmus {

/// Without blanks at both ends.
std::string_view trim(std::string_view text);
/// ASCII letters only; the locale has no say.
std::string lower(std::string_view text);
std::string upper(std::string_view text);
/// The trimmed pieces between separators; empty pieces are dropped, so "a,,b," has two.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The lines without their ends; the first is line 1.
std::vector<std::string_view> lines_of(std::string_view text);

/// The pieces with `separator` between them.
std::string join(std::span<const std::string_view> pieces, std::string_view separator);

/// Ascending numbers with runs drawn together, "2,5,7-9"; after 16 pieces "...".
std::string number_ranges(std::span<const int32_t> ascending);
/// "250 ms", "30 s", "1.5 s".
std::string duration_text(TimeNs duration);

/// Decimal digits only, within [0, max].
Result<uint64_t> parse_unsigned(std::string_view text, uint64_t max);
/// "250ms", "30s", "2m", "1h", also ns and us; a bare number is seconds. Never negative.
Result<TimeNs> parse_duration(std::string_view text);
/// "4096", "256K", "64M", "1G" in powers of 1024; "KB" and "KiB" mean the same.
Result<uint64_t> parse_bytes(std::string_view text);
/// 1, 0, true, false, yes, no, on, off, in any case.
Result<bool> parse_bool(std::string_view text);

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate most like `text`, or "" if none is like it at all.
std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace isthmus
