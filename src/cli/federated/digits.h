// SPDX-License-Identifier: Apache-2.0
// The images that the simulation of cohorts learns from: 8 x 8 grey values with a digit. Read from a file, from scikit-learn by a script,
// or made up where neither is there. Errors name the file and the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus::cli {

inline constexpr uint32_t kSide = 8, kPixels = kSide * kSide, kDigits = 10;

struct Digits {
  std::vector<float> images;  ///< rows of kPixels, 0 to 1
  std::vector<uint32_t> labels;
  std::string source;  ///< for people: "scikit-learn's digits"

  [[nodiscard]] size_t size() const { return labels.size(); }
};

/// Lines of 64 numbers from 0 to 16 and a digit. At least 100 of them, with every digit.
Result<Digits> parse_digits(std::string_view text);
/// Ten blurred random shapes, each moved, dimmed and disturbed anew for every image.
Digits make_digits(uint64_t seed, size_t size = 1797);

/// What prints the digits: export_digits.py.
extern const std::string_view kExportDigits;
/// From `path`; if that is empty from scikit-learn; made up if it is not installed, which the source says.
Result<Digits> find_digits(const std::string& path);

}  // namespace isthmus::cli
