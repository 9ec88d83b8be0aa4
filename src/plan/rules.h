// SPDX-License-Identifier: Apache-2.0
// Rule tables: which algorithm for which size. The type and its text form; collectives/select.cc holds the built-in defaults,
// perf/tune writes them. Parsing fails with the line and column of the offending word.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "plan/algorithm.h"

namespace isthmus::plan {

/// Where the ranks are, as far as the built-in rules distinguish.
enum class Reach : uint8_t { process, host, network };
std::string_view name_of(Reach reach);

/// Applies when all of it matches; of matching rules the first wins.
struct Rule {
  Collective collective = Collective::allreduce;
  Reach reach = Reach::host;
  int32_t min_ranks = 1, max_ranks = INT32_MAX;
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;  ///< bytes of the larger of in and out; max inclusive
  std::string algorithm;
  uint32_t segments = 1;
  uint32_t leaders = 0;  ///< 0: not said
  Across across = Across::direct;
};

using RuleTable = std::vector<Rule>;

/// "ring", or an error that lists the names.
Result<Across> parse_across(std::string_view name);

/// One rule a line: "allreduce host ranks=2-4 bytes=0-16384 recursive_doubling segments=1"; '#' starts a comment.
Result<RuleTable> parse_rules(std::string_view text);
std::string to_text(std::span<const Rule> rules);

}  // namespace isthmus::plan
