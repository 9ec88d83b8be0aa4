// SPDX-License-Identifier: Apache-2.0
// Why a plan says what it says, for one size of one collective: where the time goes, who comes second, what was known and how well, and
// what would have to change for another choice. Called by `isthmus explain`. Pure; fails where plans cannot be priced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/planner/search.h"

namespace isthmus::topology {

/// A predicted time in parts that add up to it: what it would be less without bytes on links, without adding and copying, without
/// overheads, taken away in this order; what is left is latency.
struct Terms {
  TimeNs total_ns = 0;
  TimeNs bandwidth_ns = 0, compute_ns = 0, overhead_ns = 0, latency_ns = 0;
};

/// What would have to change.
struct Flip {
  std::string input;              ///< "latency of job b0 -> b1"
  double factor = 1;              ///< by which it would have to be multiplied: the nearest of a few
  TimeNs latency_ns = 0;          ///< then; 0: the input is a rate
  uint64_t rate_bytes_per_s = 0;  ///< then; 0: the input is a latency
  collectives::Choice choice;     ///< that would be taken
};

struct Explanation {
  Collective collective = Collective::allreduce;
  uint64_t bytes = 0;
  Price chosen;
  Terms terms;
  std::vector<Price> others;             ///< the best of other algorithms, by time
  Terms terms_of_other;                  ///< of the first of them
  TimeNs bound_ns = 0;                   ///< what no algorithm beats
  std::vector<const LinkFacts*> inputs;  ///< the scene's, that matter
  std::vector<Flip> flips;
};

/// `chosen` without an algorithm: the quickest. `hysteresis` as in SearchOptions.
Result<Explanation> explain(const Scene& scene, Collective collective, uint64_t bytes, const collectives::Choice& chosen,
                            double hysteresis);

/// For terminals; `now_s` (seconds since 1970) gives measurements an age.
std::string to_text(const Explanation& explanation, int64_t now_s);
std::string to_json(const Explanation& explanation);

}  // namespace isthmus::topology
