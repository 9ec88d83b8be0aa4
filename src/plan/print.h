// SPDX-License-Identifier: Apache-2.0
// The printer: plans as text, DOT and Chrome trace. Called by the isthmus tool, by failure reports and tests. Cannot fail.
#pragma once

#include <string>

#include "plan/check.h"
#include "plan/cost.h"

namespace isthmus::plan {

/// One step on one line: "  7 recv_reduce  from 3  out[2..4) = in[2..4) sum message #1  slot 0  after 3,5  ring.cc:31".
std::string to_text(const Plan& plan, uint32_t step);
/// The whole plan, header first.
std::string to_text(const Plan& plan);
/// All ranks as clusters, messages as edges between them.
std::string to_dot(World world);
/// Chrome trace JSON (chrome://tracing, Perfetto) of a cost walk that was asked for its times.
std::string to_chrome_trace(World world, const Cost& cost);

}  // namespace isthmus::plan
