// SPDX-License-Identifier: Apache-2.0
// digits.h.
#include "cli/federated/digits.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "cli/federated/number_table.h"
#include "federated/draws.h"

namespace isthmus::cli {
namespace {

constexpr double kDarkest = 16;
constexpr size_t kFewest = 100;

struct Ran {
  int status = 0;  ///< as waitpid has it
  std::string output;
};

/// The script's standard output. Its words go where ours go, but for "not installed", which is no news.
Result<Ran> run_script() {
  const std::string command = fmt::format("exec python3 - 2>/dev/null <<'END'\n{}\nEND\n", kExportDigits);
  FILE* pipe = popen(command.c_str(), "re");  // NOLINT: the command is a constant
  if (pipe == nullptr) return errno_error("cannot start python3", errno);
  Ran ran;
  std::array<char, 65536> buffer;
  for (size_t got = 1; got > 0;) {
    got = std::fread(buffer.data(), 1, buffer.size(), pipe);
    ran.output.append(buffer.data(), got);
  }
  ran.status = pclose(pipe);
  return ran;
}

/// A shape: some blurred strokes, by pixel.
std::vector<double> make_shape(CounterRng& random) {
  std::vector<double> shape(kPixels);
  for (int stroke = 0; stroke < 3; ++stroke) {
    double x = 1 + 6 * random.uniform(), y = 1 + 6 * random.uniform();
    const double turn = 2 * std::numbers::pi * random.uniform();
    for (int step = 0; step < 5; ++step, x += std::cos(turn), y += std::sin(turn)) {
      for (uint32_t i = 0; i < kPixels; ++i) {
        const uint32_t column = i % kSide, row = i / kSide;
        const double dx = column - x, dy = row - y;
        shape[i] = std::max(shape[i], std::exp(-(dx * dx + dy * dy)));
      }
    }
  }
  return shape;
}

}  // namespace

Result<Digits> parse_digits(std::string_view text) {
  ISTHMUS_ASSIGN(const NumberTable table, parse_number_table(text));
  if (table.columns != kPixels + 1) {
    return invalid_argument(fmt::format("{} columns, where 64 grey values and a digit make 65", table.columns));
  }
  Digits digits;
  std::array<size_t, kDigits> counts{};
  for (size_t row = 0; row < table.rows(); ++row) {
    for (size_t column = 0; column < kPixels; ++column) {
      const double grey = table.at(row, column);
      if (grey < 0 || grey > kDarkest) {
        return invalid_argument(fmt::format("line {}, column {}: {} is no grey value from 0 to 16", table.line_of[row], column + 1, grey));
      }
      digits.images.push_back(static_cast<float>(grey / kDarkest));
    }
    const double label = table.at(row, kPixels);
    if (label < 0 || label >= kDigits || label != std::floor(label)) {
      return invalid_argument(fmt::format("line {}, column 65: {} is no digit", table.line_of[row], label));
    }
    digits.labels.push_back(static_cast<uint32_t>(label));
    ++counts[digits.labels.back()];
  }
  if (digits.size() < kFewest) return invalid_argument(fmt::format("{} images; at least {} are needed", digits.size(), kFewest));
  const auto none = std::find_if(counts.begin(), counts.end(), [](size_t count) { return count < 4; });
  if (none != counts.end()) return invalid_argument(fmt::format("fewer than four images of digit {}", none - counts.begin()));
  return digits;
}

Digits make_digits(uint64_t seed, size_t size) {
  CounterRng random = federated::draws(seed, federated::Stream::data);
  std::vector<std::vector<double>> shapes;
  for (uint32_t digit = 0; digit < kDigits; ++digit) shapes.push_back(make_shape(random));
  Digits digits{.images = {}, .labels = {}, .source = "made-up images"};
  for (size_t n = 0; n < size; ++n) {
    digits.labels.push_back(static_cast<uint32_t>(n % kDigits));
    const double light = 0.7 + 0.3 * random.uniform();
    const auto dx = static_cast<int>(random.below(3)) - 1, dy = static_cast<int>(random.below(2));
    for (int y = 0; y < static_cast<int>(kSide); ++y) {
      for (int x = 0; x < static_cast<int>(kSide); ++x) {
        const int from_x = x - dx, from_y = y - dy;
        const bool inside = from_x >= 0 && from_y >= 0 && from_x < static_cast<int>(kSide) && from_y < static_cast<int>(kSide);
        const double ink = inside ? shapes[digits.labels.back()][static_cast<size_t>(from_y) * kSide + static_cast<size_t>(from_x)] : 0;
        digits.images.push_back(static_cast<float>(std::clamp(ink * light + 0.15 * federated::normal(random), 0.0, 1.0)));
      }
    }
  }
  return digits;
}

Result<Digits> find_digits(const std::string& path) {
  if (!path.empty()) {
    const Result<std::string> text = read_text_file(path);
    if (!text.ok()) return text.status().with_context(path);
    Result<Digits> digits = parse_digits(*text);
    if (!digits.ok()) return digits.status().with_context(path);
    digits->source = path;
    return digits;
  }
  ISTHMUS_ASSIGN(const Ran ran, run_script());
  if (!WIFEXITED(ran.status) || WEXITSTATUS(ran.status) != 0) {
    Digits digits = make_digits(1);
    digits.source = "made-up images, since scikit-learn's digits are not here (Debian: python3-sklearn)";
    return digits;
  }
  Result<Digits> digits = parse_digits(ran.output);
  if (!digits.ok()) return digits.status().with_context("scikit-learn's digits");
  digits->source = "scikit-learn's digits";
  return digits;
}

}  // namespace isthmus::cli
