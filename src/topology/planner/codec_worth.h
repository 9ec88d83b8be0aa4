// SPDX-License-Identifier: Apache-2.0
// Whether a call is quicker through a codec, and up to which rate of the slowest links. Called by `isthmus explain --codec`. Pure; fails
// where no algorithm can use the codec, or the job is too large for its plans to be walked.
#pragma once

#include <cstdint>
#include <string>

#include "topology/planner/search.h"

namespace isthmus::topology {

struct CodecWorth {
  std::string codec;
  Price exact, coded;
  std::string links;              ///< the kind whose rates are meant below: "job"
  uint64_t rate_bytes_per_s = 0;  ///< what is known of them: a cut's rate, else a stream's
  double break_even = 0;          ///< times which both would be equally quick; 0: the codec never pays, infinite: it always does
};

/// `codec`: as for communicators of the scene's ranks.
Result<CodecWorth> worth_of(const Scene& scene, Collective collective, uint64_t bytes, const codec::Named& codec);

std::string to_text(const CodecWorth& worth);

}  // namespace isthmus::topology
