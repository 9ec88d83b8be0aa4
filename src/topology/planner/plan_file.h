// SPDX-License-Identifier: Apache-2.0
// The plan file: which algorithm for which sizes, with what it was made from. People read, edit (pins), compare and keep it; communicators
// of the job that it was made for follow it. Written by `isthmus plan` and by the planner at set-up. Pure; the same plan is the same text.
// Reading fails on malformed text and on names that no algorithm has; fields that are not known become warnings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/planner/search.h"

namespace isthmus::topology {

struct PlanFile {
  uint64_t epoch = 1;         ///< the profile's
  uint64_t layout_hash = 0;   ///< Layout::hash() of the job
  uint64_t profile_hash = 0;  ///< of the profile's text
  int32_t ranks = 0;
  std::string layout;  ///< for people
  std::vector<Interval> intervals;
  std::vector<Pin> pins;

  /// What communicators go by: the pins, then the intervals; the first that fits counts.
  [[nodiscard]] std::vector<collectives::PlannedRange> ranges() const;
};

/// Searches, and says what it was made from.
Result<PlanFile> make_plan_file(const Scene& scene, const SearchOptions& options);

/// JSON, schema "isthmus.plan/1".
std::string to_json(const PlanFile& file);
Result<PlanFile> parse_plan_file(std::string_view text, std::vector<std::string>& warnings);

/// A line for each interval, for terminals.
std::string to_text(const PlanFile& file);

/// "hierarchy in 4 segments, across by ring", "ring".
std::string text_of(const collectives::Choice& choice);
/// "64 KiB", "40959 B".
std::string bytes_text(uint64_t bytes);
/// "5.36 ms".
std::string time_text(TimeNs time);

}  // namespace isthmus::topology
