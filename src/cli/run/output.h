// SPDX-License-Identifier: Apache-2.0
// The ranks' captured output on the launcher's own: as it comes, or line by line with the rank before each line. Writing
// errors are not actionable (whoever reads us is gone) and are ignored.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

namespace isthmus::cli {

class OutputMerger {
 public:
  explicit OutputMerger(bool tag) : tag_(tag) {}

  /// Bytes that `rank` wrote, to be written to `stream`.
  void write(std::FILE* stream, int32_t rank, const std::string& bytes);
  /// Writes unfinished lines, at the end.
  void flush();

 private:
  bool tag_;
  std::map<std::pair<std::FILE*, int32_t>, std::string> unfinished_;
};

}  // namespace isthmus::cli
