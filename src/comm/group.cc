// SPDX-License-Identifier: Apache-2.0
// From a group's calls to launches. See group.h.
#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::comm {

Status Group::fill(exec::Launch& launch, StreamHandle stream) {
  std::vector<Communicator*> transferred;
  for (const Entry& entry : entries_) {
    if (entry.stream != stream) continue;
    if (entry.request.collective != Collective::sendrecv) {
      ISTHMUS_TRY(entry.communicator->add(entry.request, launch));
      continue;
    }
    if (std::find(transferred.begin(), transferred.end(), entry.communicator) != transferred.end()) continue;
    transferred.push_back(entry.communicator);
    transfers_.clear();
    for (const Entry& other : entries_) {
      const bool same = other.communicator == entry.communicator && other.stream == stream;
      if (same && other.request.collective == Collective::sendrecv) transfers_.push_back(other.request);
    }
    ISTHMUS_TRY(entry.communicator->add_transfers(transfers_, launch));
  }
  return {};
}

Result<std::unique_ptr<exec::Launch>> Group::launch(exec::Process& process) {
  std::unique_ptr<exec::Launch> waited;
  for (size_t first = 0; first < entries_.size(); ++first) {
    const StreamHandle stream = entries_[first].stream;
    const bool seen = std::any_of(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first),
                                  [&](const Entry& entry) { return entry.stream == stream; });
    if (seen) continue;
    auto launch = process.take_launch();
    if (Status filled = fill(*launch, stream); !filled.ok()) {
      process.give_launch(std::move(launch));
      return filled;
    }
    if (stream == 0) {
      waited = std::move(launch);
      continue;
    }
    exec::Stream* queue = process.find_stream(stream);
    if (queue == nullptr) return invalid_argument(fmt::format("stream {:#x} is not a stream of isthmusStreamCreate", stream));
    queue->push(std::move(launch));
  }
  if (waited) process.begin(*waited);
  return waited;
}

}  // namespace isthmus::comm
