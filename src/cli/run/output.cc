// SPDX-License-Identifier: Apache-2.0
// The ranks' output, merged (see output.h).
#include "cli/run/output.h"

#include <fmt/format.h>

namespace isthmus::cli {

void OutputMerger::write(std::FILE* stream, int32_t rank, const std::string& bytes) {
  if (!tag_) {
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::fflush(stream);
    return;
  }
  std::string& line = unfinished_[{stream, rank}];
  line += bytes;
  size_t begin = 0;
  for (size_t end = line.find('\n'); end != std::string::npos; end = line.find('\n', begin)) {
    fmt::print(stream, "[{}] {}\n", rank, std::string_view(line).substr(begin, end - begin));
    begin = end + 1;
  }
  line.erase(0, begin);
  std::fflush(stream);
}

void OutputMerger::flush() {
  for (auto& [key, line] : unfinished_) {
    if (!line.empty()) fmt::print(key.first, "[{}] {}\n", key.second, line);
    std::fflush(key.first);
    line.clear();
  }
}

}  // namespace isthmus::cli
