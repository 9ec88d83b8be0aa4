// SPDX-License-Identifier: Apache-2.0
// Reading files. See file.h.
#include "base/file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace isthmus {
namespace {

constexpr size_t kMaxFileBytes = 16 << 20;

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  // What is no file may never end, or never begin.
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return invalid_argument("cannot be read: it is no file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error("cannot be read", errno);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) return system_error("cannot be read; is it a file?");
  if (file.gcount() > static_cast<std::streamsize>(kMaxFileBytes)) return invalid_argument("is larger than 16 MiB");
  text.resize(static_cast<size_t>(file.gcount()));
  text.shrink_to_fit();
  return text;
}

}  // namespace isthmus
