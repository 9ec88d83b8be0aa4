// SPDX-License-Identifier: Apache-2.0
// Records of calls, their words and how they are found again; credit given back. Called by runs and when calls are compared; fails where
// a peer is lost.
#include "exec/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/core.h"

namespace isthmus::exec {

std::string CallRecord::to_text() const {
  if (call_class == wire::CallClass::send_recv) {
    return fmt::format("{} #{} {} rank {} count {} {}", is_send ? "send" : "recv", number, is_send ? "to" : "from", peer, signature.count,
                       name_of(signature.type));
  }
  return how.empty() ? signature.to_text() : fmt::format("{} ({})", signature.to_text(), how);
}

const CallRecord* Endpoint::find_record(wire::CallClass call_class, int32_t peer, bool is_send, uint32_t number) const {
  const uint64_t kept = std::min<uint64_t>(recorded, kHistory);
  for (uint64_t i = 0; i < kept; ++i) {
    const CallRecord& call = history[i];
    if (call.call_class != call_class || call.number != number) continue;
    if (call_class == wire::CallClass::send_recv && (call.peer != peer || call.is_send != is_send)) continue;
    return &call;
  }
  return nullptr;
}

Status return_credit(Core& core, Endpoint& endpoint, int32_t rank, wire::CallClass call_class, uint64_t bytes) {
  Flow& flow = endpoint.flows[static_cast<size_t>(rank)];
  flow.consumed_bytes += bytes;
  if (flow.consumed_bytes < core.limits.eager_bytes / 4 || flow.consumed_bytes == 0) return {};
  const wire::FrameHeader header{.type = wire::FrameType::credit,
                                 .call_class = call_class,
                                 .communicator = endpoint.communicator,
                                 .source = endpoint.rank,
                                 .destination = rank,
                                 .length = std::exchange(flow.consumed_bytes, 0)};
  ++core.counters.credits;
  return flow.transport->send(flow.peer, header, {}, transport::kNoToken);
}

}  // namespace isthmus::exec
