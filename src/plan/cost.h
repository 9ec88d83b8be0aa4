// SPDX-License-Identifier: Apache-2.0
// The cost walk: runs the plans of all ranks in virtual time on a modelled machine and network. Called by the planner, perf/tune,
// the printer (Chrome trace) and `isthmus algorithms`. Fails only where the plans deadlock.
#pragma once

#include <cstdint>
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
  double reduce_bytes_per_s = 0;                   ///< reduce, apply and codec steps
  double copy_bytes_per_s = 0;                     ///< copy and map steps
  TimeNs step_ns = 0;                              ///< every step at its rank, which does one thing at a time
  /// Optional shared cut (a site's uplink): transfers for which it returns the same id >= 0 share `cut_link`, one at a time, and pay its
  /// costs besides the link's; -1: none. The two directions of an uplink need different ids.
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
  std::vector<uint64_t> sent_bytes;     ///< by index into the world
  std::vector<uint32_t> sent_messages;  ///< by index into the world; messages without bytes do not count
  uint32_t longest_chain = 0;           ///< messages on the longest dependent chain
  std::vector<StepTime> times;          ///< filled when asked for
};

/// Walks the plans of all ranks for `count` elements per block (grouped send/recv: per transfer). Messages are pushed. Everything that
/// becomes possible begins as soon as the rank's CPU, the link and the cut are free, in the order in which it became possible.
/// Fails with internal_error if a plan is malformed or the plans stall.
Result<Cost> cost(World world, uint64_t count, size_t element_size, const CostModel& model, bool with_times = false);

}  // namespace isthmus::plan
