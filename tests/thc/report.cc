// SPDX-License-Identifier: Apache-2.0
// Prints rows and remembers failures. Nothing can fail.
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace isthmus::thc {

void Report::title(std::string_view text) {
  fmt::print("\n{}\n  {:<62} {:>11} {:>11} {:>11}\n", text, "", "expected", "measured", "tolerance");
}

void Report::verdict(bool ok) {
  ++rows_;
  failed_ += ok ? 0 : 1;
  fmt::print("  {}\n", ok ? "ok" : "FAILED");
}

void Report::row(std::string_view what, double expected, double measured, double relative, double absolute) {
  const double allowed = std::max(relative * std::abs(expected), absolute);
  fmt::print("  {:<62} {:>11.4g} {:>11.4g} {:>10.1f}%", what, expected, measured, 100 * allowed / std::abs(expected));
  verdict(std::abs(measured - expected) <= allowed);  // false for NaN
}

void Report::within_factor(std::string_view what, double expected, double measured, double factor) {
  fmt::print("  {:<62} {:>11.4g} {:>11.4g} {:>11}", what, expected, measured, fmt::format("factor {}", factor));
  verdict(measured <= expected * factor && measured >= expected / factor);
}

void Report::at_least(std::string_view what, double bound, double measured) {
  fmt::print("  {:<62} {:>11.4g} {:>11.4g} {:>11}", what, bound, measured, "at least");
  verdict(measured >= bound);
}

void Report::holds(std::string_view what, bool ok) {
  fmt::print("  {:<62} {:>11} {:>11} {:>11}", what, "yes", ok ? "yes" : "no", "");
  verdict(ok);
}

int Report::finish() const {
  fmt::print("\n{} rows, {} failed\n", rows_, failed_);
  return failed_ == 0 && rows_ > 0 ? 0 : 1;
}

}  // namespace isthmus::thc
