// SPDX-License-Identifier: Apache-2.0
// The cost walk: runs the plans of all ranks in virtual time on a modelled machine and network. Called by the planner, perf/tune,
// the printer (Chrome trace) and `isthmus algorithms`. Fails only where the plans deadlock.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "plan/check.h"

namespace isthmus::plan {

/// What a link or a machine costs. Rates are bytes per second; 0 means free.
struct LinkCost {
  TimeNs latency_ns = 0;
  TimeNs overhead_ns = 0;  ///< per message at the sender and at the receiver
  double rate_bytes_per_s = 0;
};

struct CostModel {
  std::function<LinkCost(int from, int to)> link;  ///< by communicator rank; one transfer at a time per directed pair
  double reduce_bytes_per_s = 0;
  double copy_bytes_per_s = 0;
  TimeNs step_ns = 0;
  /// Optional shared cut (a site's uplink): ranks for which it returns the same id >= 0 share `cut_link`, per direction; -1: none.
  std::function<int(int from, int to)> cut;
  LinkCost cut_link;
};

/// One step's place in virtual time, for traces.
struct StepTime {
  int32_t rank;
  uint32_t step;
  TimeNs begin_ns, end_ns;
};

struct Cost {
  TimeNs total_ns = 0;
  std::vector<uint64_t> sent_bytes;     ///< per rank
  std::vector<uint32_t> sent_messages;  ///< per rank
  uint32_t longest_chain = 0;           ///< messages on the longest dependent chain
  std::vector<StepTime> times;          ///< filled when asked for
};

Result<Cost> cost(World world, uint64_t count, size_t element_size, const CostModel& model, bool with_times = false);

}  // namespace isthmus::plan
