// SPDX-License-Identifier: Apache-2.0
// The ranks' output, merged (see output.h).
#include "cli/run/output.h"

#include <fmt/format.h>

namespace isthmus::cli {
namespace {

/// Whether all was written is asked once, at the tool's end; fmt::print would throw while ranks run.
void put(std::FILE* stream, const std::string& bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stream); }

}  // namespace

void OutputMerger::write(std::FILE* stream, int32_t rank, const std::string& bytes) {
  if (!tag_) {
    put(stream, bytes);
    std::fflush(stream);
    return;
  }
  std::string& line = unfinished_[{stream, rank}];
  line += bytes;
  size_t begin = 0;
  for (size_t end = line.find('\n'); end != std::string::npos; end = line.find('\n', begin)) {
    put(stream, fmt::format("[{}] {}\n", rank, std::string_view(line).substr(begin, end - begin)));
    begin = end + 1;
  }
  line.erase(0, begin);
  std::fflush(stream);
}

void OutputMerger::flush() {
  for (auto& [key, line] : unfinished_) {
    if (!line.empty()) put(key.first, fmt::format("[{}] {}\n", key.second, line));
    std::fflush(key.first);
    line.clear();
  }
}

}  // namespace isthmus::cli
