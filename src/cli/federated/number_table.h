// SPDX-License-Identifier: Apache-2.0
// Tables of numbers as text, commas between: what `isthmus federated` reads. Pure; errors name the line and the column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "federated/points.h"

namespace isthmus::cli {

struct NumberTable {
  std::vector<std::string> names;  ///< of columns, without quotes; empty if the first line holds numbers
  size_t columns = 0;
  std::vector<double> values;   ///< rows, one after the other; all finite
  std::vector<size_t> line_of;  ///< by row

  [[nodiscard]] size_t rows() const { return line_of.size(); }
  [[nodiscard]] double at(size_t row, size_t column) const { return values[row * columns + column]; }
};

/// Cells may stand in double quotes; lines that are empty or begin with # do not count, nor does a mark of UTF-8 at the beginning.
/// invalid_argument: no rows, rows of different lengths, what is no finite number.
Result<NumberTable> parse_number_table(std::string_view text);

/// Clients with their representations.
struct ClientTable {
  std::vector<uint64_t> ids;      ///< ascending in no way; all different
  std::vector<uint64_t> samples;  ///< 1 where the file does not say
  bool has_samples = false;       ///< it does
  std::vector<uint32_t> groups;   ///< planted groups; empty if the file has none
  std::vector<size_t> line_of;
  std::vector<std::string> names;  ///< of the representation's columns; empty if the file has none
  std::vector<float> values;
  uint32_t dims = 0;

  [[nodiscard]] federated::Points points() const { return {.values = values, .dims = dims}; }
};

/// Columns named `client`, `samples` and `group` are that; all others are the representation. Without names all are, and clients are
/// numbered from 0.
Result<ClientTable> parse_clients(std::string_view text);

}  // namespace isthmus::cli
