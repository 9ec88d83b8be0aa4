// SPDX-License-Identifier: Apache-2.0
// A group: the calls that one thread makes between ncclGroupStart and ncclGroupEnd (or one call alone). Called by api/ under the
// driver's lock. Wrong arguments have been refused before a call gets here; what fails at launch poisons the group's communicators.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "exec/launch.h"

namespace isthmus::comm {

/// The stream of a call: 0 is the NULL stream, everything else a handle of Process.
using StreamHandle = uint64_t;

class Group {
 public:
  void add(Communicator& communicator, const Request& request, StreamHandle stream) {
    entries_.push_back({&communicator, request, stream});
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }

  /// Turns the calls into launches, one per stream, in the order in which they were made; send/recv calls of one communicator form one
  /// call of the engine. Streams' launches are queued, the NULL stream's begins and is returned (null if it has no calls) for the
  /// caller to wait for.
  Result<std::unique_ptr<exec::Launch>> launch(exec::Process& process);

 private:
  struct Entry {
    Communicator* communicator;
    Request request;
    StreamHandle stream;
  };
  Status fill(exec::Launch& launch, StreamHandle stream);

  std::vector<Entry> entries_;
  std::vector<Request> transfers_;  ///< scratch of fill()
};

}  // namespace isthmus::comm
