// SPDX-License-Identifier: Apache-2.0
// number_table.h.
#include "cli/federated/number_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/text.h"

namespace isthmus::cli {
namespace {

constexpr size_t kMaxShown = 40;  // letters of a cell in an error

/// What is between double quotes, if the cell at the beginning of `line` is; `line` then begins behind them.
std::optional<std::string_view> take_quoted(std::string_view& line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos || line[first] != '"') return std::nullopt;
  const size_t last = line.find('"', first + 1);
  if (last == std::string_view::npos) return std::nullopt;
  const size_t next = line.find_first_not_of(" \t\r", last + 1);
  if (next != std::string_view::npos && line[next] != ',') return std::nullopt;
  const std::string_view cell = line.substr(first + 1, last - first - 1);
  line.remove_prefix(last + 1);
  return cell;
}

/// Cells with nothing dropped: "a,,b" has three. Quotes that are closed around a whole cell do not belong to it.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const auto quoted = take_quoted(line);
    const size_t comma = line.find(',');
    cells.push_back(trim(quoted ? *quoted : line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> number_in(std::string_view cell) {
  const std::string text(cell);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

Status place_error(size_t line, size_t column, std::string_view what) {
  return invalid_argument(fmt::format("line {}, column {}: {}", line, column + 1, what));
}

Status add_row(NumberTable& table, size_t line, const std::vector<std::string_view>& cells) {
  if (cells.size() != table.columns) {
    return invalid_argument(fmt::format("line {}: {} columns, where the first line has {}", line, cells.size(), table.columns));
  }
  for (size_t column = 0; column < cells.size(); ++column) {
    const auto value = number_in(cells[column]);
    if (!value) return place_error(line, column, fmt::format("'{}' is no finite number", cells[column].substr(0, kMaxShown)));
    table.values.push_back(*value);
  }
  table.line_of.push_back(line);
  return {};
}

/// The cell as a whole number from 0 to `max`.
Result<uint64_t> whole(const NumberTable& table, size_t row, size_t column, uint64_t max) {
  const double value = table.at(row, column);
  if (value >= 0 && value <= static_cast<double>(max) && value == std::floor(value)) return static_cast<uint64_t>(value);
  return place_error(table.line_of[row], column, fmt::format("{} is no whole number from 0 to {}", value, max));
}

struct Columns {
  std::optional<size_t> client, samples, group;
  std::vector<size_t> values;
};

Result<Columns> columns_of(const NumberTable& table) {
  Columns columns;
  for (size_t column = 0; column < table.columns; ++column) {
    const std::string name = table.names.empty() ? "" : lower(table.names[column]);
    std::optional<size_t>* special = name == "client"    ? &columns.client
                                     : name == "samples" ? &columns.samples
                                     : name == "group"   ? &columns.group
                                                         : nullptr;
    if (special == nullptr) {
      columns.values.push_back(column);
    } else if (special->has_value()) {
      return invalid_argument(fmt::format("there are two columns '{}'", name));
    } else {
      *special = column;
    }
  }
  if (columns.values.empty()) return invalid_argument("no column holds a representation");
  return columns;
}

Status add_client(ClientTable& clients, const NumberTable& table, const Columns& columns, size_t row) {
  constexpr uint64_t kMaxWhole = (uint64_t{1} << 53) - 1;  // beyond, several numbers read as the same double
  uint64_t id = row, samples = 1, group = 0;
  if (columns.client) {
    ISTHMUS_ASSIGN(id, whole(table, row, *columns.client, kMaxWhole));
  }
  if (columns.samples) {
    ISTHMUS_ASSIGN(samples, whole(table, row, *columns.samples, kMaxWhole));
    if (samples == 0) return place_error(table.line_of[row], *columns.samples, "a client without samples has no representation");
  }
  if (columns.group) {
    ISTHMUS_ASSIGN(group, whole(table, row, *columns.group, UINT32_MAX - 1));
    clients.groups.push_back(static_cast<uint32_t>(group));
  }
  clients.ids.push_back(id);
  clients.samples.push_back(samples);
  for (const size_t column : columns.values) {
    const double value = table.at(row, column);
    if (std::abs(value) > double{std::numeric_limits<float>::max()}) return place_error(table.line_of[row], column, "beyond float32");
    clients.values.push_back(static_cast<float>(value));
  }
  return {};
}

}  // namespace

Result<NumberTable> parse_number_table(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8; spreadsheets write it
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  NumberTable table;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (trim(line).empty() || trim(line).front() == '#') continue;
    const std::vector<std::string_view> cells = cells_of(line);
    if (table.columns == 0) {
      table.columns = cells.size();
      if (std::none_of(cells.begin(), cells.end(), [](std::string_view cell) { return number_in(cell).has_value(); })) {
        table.names.assign(cells.begin(), cells.end());
        continue;
      }
    }
    ISTHMUS_TRY(add_row(table, number, cells));
  }
  if (table.rows() == 0) return invalid_argument("there are no rows of numbers");
  return table;
}

Result<ClientTable> parse_clients(std::string_view text) {
  ISTHMUS_ASSIGN(const NumberTable table, parse_number_table(text));
  ISTHMUS_ASSIGN(const Columns columns, columns_of(table));
  ClientTable clients;
  clients.dims = static_cast<uint32_t>(columns.values.size());
  clients.line_of = table.line_of;
  clients.has_samples = columns.samples.has_value();
  for (const size_t column : columns.values)
    if (!table.names.empty()) clients.names.push_back(table.names[column]);
  std::unordered_map<uint64_t, size_t> lines;
  for (size_t row = 0; row < table.rows(); ++row) {
    ISTHMUS_TRY(add_client(clients, table, columns, row));
    const auto [other, is_new] = lines.try_emplace(clients.ids[row], table.line_of[row]);
    if (!is_new) {
      return invalid_argument(fmt::format("line {}: client {} is in line {} already", table.line_of[row], clients.ids[row], other->second));
    }
  }
  return clients;
}

}  // namespace isthmus::cli
