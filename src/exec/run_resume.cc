// SPDX-License-Identifier: Apache-2.0
// How a run takes over a call that began on the short way (quick.h). Called by the engine.
#include <algorithm>

#include "exec/quick.h"
#include "exec/run.h"

namespace isthmus::exec {

namespace {
constexpr uint32_t kDone = UINT32_MAX;
}

// The short way goes through the steps in their order, so what is done is a prefix.
void Run::resume(Endpoint& endpoint, Quick& quick, uint32_t slot) {
  take_over(endpoint, quick.call(), slot);
  buffers_.swap(quick.buffers());
  record(quick.call());
  reset_steps();
  for (uint32_t index = 0; index < quick.steps_done(); ++index) {
    pending_[index] = kDone;
    --remaining_;
    for (const uint32_t next : program_->plan.successors_of(index)) --pending_[next];
  }
  for (uint32_t inbound = 0; inbound < program_->recv_steps.size() && running_; ++inbound) take_message(inbound, quick);
  for (uint32_t index = quick.steps_done(); index < pending_.size(); ++index) {
    if (pending_[index] == 0) ready_.push_back(index);
  }
  if (running_) go();
}

// A message that has come, or was used up, on the short way.
void Run::take_message(uint32_t inbound, const Quick& quick) {
  Inbound& message = inbound_[inbound];
  if (program_->recv_steps[inbound] < quick.steps_done()) {
    message.phase = Phase::consumed;
    return;
  }
  const Quick::Message& come = quick.message(inbound);
  if (come.data == nullptr) return;
  const std::span<std::byte> staged = stage(message, come.bytes);
  if (staged.empty()) return;  // no memory: the run has failed
  std::copy_n(come.data, come.bytes, staged.data());
  message.arrived = come.bytes;
  message.eager_bytes = come.eager_bytes;
}

}  // namespace isthmus::exec
