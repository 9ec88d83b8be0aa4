// SPDX-License-Identifier: Apache-2.0
// What the engine shares with its running calls: limits, kernels, memory, who has long data work, counters, the flight
// recorder, the trace. Owned by Engine.
#pragma once

#include <cstdint>

#include "base/fifo.h"
#include "base/types.h"
#include "exec/distance.h"
#include "exec/recorder.h"
#include "exec/trace.h"
#include "kernels/reduce.h"
#include "memory/pool.h"

namespace isthmus::exec {

class Run;

/// A run that has long data work, waiting for its turn.
struct Turn {
  Run* run = nullptr;
  uint16_t generation = 0;  ///< of the run when it began to wait
};

struct Limits {
  uint64_t eager_bytes = 256 << 10;  ///< credit per communicator and peer
  uint64_t offer_bytes = 8 << 10;    ///< messages from this size are offered where the peer can read them
  uint64_t piece_bytes = 256 << 10;  ///< one bite of data work; also the most read of a peer's memory at once
  uint64_t inline_bytes = 16 << 10;  ///< steps up to this size run as soon as they are ready
  uint64_t poll_bytes = 1 << 20;     ///< data work per poll
};

struct Counters {
  uint64_t calls = 0, failed_calls = 0;
  uint64_t repeated_calls = 0;  ///< on the short way, like the one before
  uint64_t frames_received = 0, stray_frames = 0;
  uint64_t staged_bytes = 0;
  uint64_t grants = 0, wants = 0, credits = 0;
};

struct Core {
  Core(const Limits& limits_in, const kernels::Target& kernels_in, memory::Pool& pool_in)
      : limits(limits_in), kernels(kernels_in), pool(pool_in) {}

  Limits limits;
  const kernels::Target& kernels;
  memory::Pool& pool;
  memory::Block bounce;  ///< piece_bytes, for peers' memory that must be copied to be read
  memory::Block coding;  ///< CodingWork, once a call has used a codec
  Fifo<Turn> turns;
  Fifo<Run*> finished;  ///< runs to retire once nothing of theirs is on the call stack
  Counters counters;
  Recorder recorder;
  Distance distance;
  Trace* trace = nullptr;  ///< null: off
  TimeNs now = 0;
  /// For measuring how fast memory is read, never for deciding what happens when; null where time is virtual.
  TimeNs (*stopwatch)() = nullptr;
  /// Where the time of the latest poll is not exact enough.
  [[nodiscard]] TimeNs exact_now() const { return stopwatch == nullptr ? now : stopwatch(); }
};

}  // namespace isthmus::exec
