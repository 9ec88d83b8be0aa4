// SPDX-License-Identifier: Apache-2.0
// The cost walk: runs the plans of all ranks in virtual time on a modelled machine and network. Called by the planner, perf/tune,
// the printer (Chrome trace) and `isthmus algorithms`. Fails only where the plans deadlock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/check.h"

namespace isthmus::plan {

/// A point of a gap curve: a message of so many bytes occupies a link so long.
struct Knot {
  uint64_t bytes = 0;
  TimeNs gap_ns = 0;
  friend bool operator==(const Knot&, const Knot&) = default;
};

/// What a link or a machine costs. Rates are bytes per second; 0 means free.
struct LinkCost {
  TimeNs latency_ns = 0;
  TimeNs overhead_ns = 0;  ///< per message at the sender and at the receiver
  double rate_bytes_per_s = 0;
  std::span<const Knot> gaps;  ///< by ascending bytes; where given they say how long a message occupies the link, not the rate
};

/// How long a message of `bytes` occupies a link: by its gap curve, linear between knots, from nothing to the first, and beyond the last at
/// the slope of the last two (P-LogP's g(m); Kielmann, Bal, Gorlatch 2000), or by its rate.
TimeNs occupancy_ns(const LinkCost& link, uint64_t bytes);

/// What the messages of several pairs go through, one at a time: a network card, a site's uplink.
struct SharedLink {
  int32_t id = 0;  ///< equal ids are one link; small and not negative
  LinkCost cost;   ///< besides the pair's own link, through which the bytes go at the same time
};

/// What a codec's steps cost, in bytes of the elements as they are; 0: as reducing does.
struct CodecCost {
  double encode_bytes_per_s = 0;  ///< with measuring
  double accumulate_bytes_per_s = 0;
  double decode_bytes_per_s = 0;
};

struct CostModel {
  std::function<LinkCost(int from, int to)> link;  ///< by communicator rank; one transfer at a time per directed pair
  double reduce_bytes_per_s = 0;                   ///< reduce and apply steps, and codec steps without a rate of their own
  CodecCost codec;                                 ///< of steps on encodings
  double copy_bytes_per_s = 0;                     ///< copy and map steps
  TimeNs step_ns = 0;                              ///< every step at its rank, which does one thing at a time
  /// Optional: what else that pair's messages go through, valid until the next call. The two directions of an uplink need different ids.
  std::function<std::span<const SharedLink>(int from, int to)> shared;
  /// Optional: ranks of one host share its CPUs. By communicator rank, the host's number; and by that, how many CPUs it has.
  std::span<const int32_t> hosts, cpus_of_hosts;
};

/// One step's place in virtual time, for traces.
struct StepTime {
  int32_t rank;
  uint32_t step;
  TimeNs begin_ns, end_ns;
};

/// What a caller wants of a walk.
struct CostOptions {
  bool with_times = false;   ///< Cost::times
  bool well_formed = false;  ///< check_form() has passed all plans already
  TimeNs limit_ns = kNever;  ///< who is not done by then is of no interest
};

struct Cost {
  TimeNs total_ns = 0;
  bool given_up = false;                ///< at the limit: everything is what was known then
  std::vector<uint64_t> sent_bytes;     ///< by index into the world
  std::vector<uint32_t> sent_messages;  ///< by index into the world; messages without bytes do not count
  uint32_t longest_chain = 0;           ///< messages on the longest dependent chain
  std::vector<StepTime> times;          ///< filled when asked for
};

/// Walks the plans of all ranks for `count` elements per block (grouped send/recv: per transfer). Messages are pushed. Everything that
/// becomes possible begins as soon as the rank's CPU, the link and all that it shares are free, in the order in which it became possible.
/// Fails with internal_error if a plan is malformed or the plans stall.
Result<Cost> cost(World world, uint64_t count, size_t element_size, const CostModel& model, const CostOptions& options = {});

}  // namespace isthmus::plan
