// SPDX-License-Identifier: Apache-2.0
// The table that the programs of this folder print: expected, measured, tolerance. Called by them; a row outside of its tolerance
// makes the program fail.
#pragma once

#include <string_view>

namespace isthmus::thc {

class Report {
 public:
  void title(std::string_view text);
  /// `measured` must be within `relative` of `expected`, or within `absolute` (half a unit of the last digit that was published).
  void row(std::string_view what, double expected, double measured, double relative, double absolute = 0);
  /// `measured` must be between expected / factor and expected * factor.
  void within_factor(std::string_view what, double expected, double measured, double factor);
  void at_least(std::string_view what, double bound, double measured);
  void holds(std::string_view what, bool ok);
  /// Prints the sum; the program's exit code.
  [[nodiscard]] int finish() const;

 private:
  void verdict(bool ok);
  int rows_ = 0, failed_ = 0;
};

void multi_round_rows(Report& report);
void unbiased_rows(Report& report);
void identity_rows(Report& report);

}  // namespace isthmus::thc
