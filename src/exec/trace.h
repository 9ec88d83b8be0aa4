// SPDX-License-Identifier: Apache-2.0
// What a process's calls and their steps did when, in Chrome's trace format, for ISTHMUS_TRACE_FILE. Filled by the engine and its runs
// where tracing is on (else each hook is one branch), written out by Process. Keeps a bounded number of marks over the process's life.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "plan/plan.h"
#include "wire/frame.h"

namespace isthmus::exec {

/// A call, or one of its steps.
struct Mark {
  static constexpr TimeNs kUnknown = -1;

  TimeNs began_ns = kUnknown;
  TimeNs ended_ns = kUnknown;
  uint64_t communicator = 0;
  int32_t rank = -1;
  wire::CallClass call_class = wire::CallClass::collective;
  uint32_t sequence = 0;  ///< of the call
  std::string call;       ///< its words; "": a step
  plan::StepKind kind = plan::StepKind::copy;
  int32_t peer = -1;
  uint32_t ordinal = 0;
  uint64_t bytes = 0;
};

class Trace {
 public:
  static constexpr uint64_t kMostMarks = 1 << 20;

  /// A poll begins or ends. Between polls the time is not known; marks made there get that of the next.
  void enter_poll(TimeNs now);
  void leave_poll() { clock_ns_ = Mark::kUnknown; }
  [[nodiscard]] TimeNs clock_ns() const { return clock_ns_; }

  /// Dropped when there have been kMostMarks, or as many wait to be taken.
  void add(Mark mark);
  [[nodiscard]] size_t waiting() const { return marks_.size(); }
  /// The marks made since the last time as elements of a JSON array, each with a comma and a line end behind it.
  [[nodiscard]] std::string take(int32_t pid);

 private:
  struct Track {
    uint64_t communicator;
    int32_t rank;
    wire::CallClass call_class;
    friend bool operator==(const Track&, const Track&) = default;
  };
  size_t track_of(const Mark& mark, int32_t pid, std::string& text);

  TimeNs clock_ns_ = Mark::kUnknown;
  std::vector<Mark> marks_;
  size_t timed_ = 0;  ///< marks before this one have their times
  uint64_t taken_ = 0;
  std::vector<Track> tracks_;  ///< by their number in the file
};

}  // namespace isthmus::exec
