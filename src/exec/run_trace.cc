// SPDX-License-Identifier: Apache-2.0
// Marks of a call and its steps. Called only while tracing is on; cannot fail.
#include <algorithm>

#include "exec/run.h"

namespace isthmus::exec {

// The times of its steps, and behind them its own.
void Run::trace_start() {
  began_ns_.assign(program_->plan.steps.size() + 1, Mark::kUnknown);
  began_ns_.back() = core_.trace->clock_ns();
}

void Run::trace_begin(uint32_t index) {
  if (index < began_ns_.size()) began_ns_[index] = std::max<TimeNs>(core_.trace->clock_ns(), 0);
}

void Run::trace_end(uint32_t index) {
  if (index >= began_ns_.size()) return;
  const plan::Step& step = program_->plan.steps[index];
  core_.trace->add({.began_ns = began_ns_[index] == 0 ? Mark::kUnknown : began_ns_[index],
                    .ended_ns = core_.trace->clock_ns(),
                    .communicator = endpoint_->communicator,
                    .rank = endpoint_->rank,
                    .call_class = class_,
                    .sequence = signature_.sequence,
                    .call = {},
                    .kind = step.kind,
                    .peer = step.is_message() ? step.peer : -1,
                    .ordinal = step.ordinal,
                    .bytes = bytes_of(step.kind == plan::StepKind::send ? step.src() : step.dst())});
}

void Run::trace_settle(TimeNs now) {
  if (began_ns_.empty() || began_ns_.back() != Mark::kUnknown) return;  // it began within a poll, or has been here
  for (TimeNs& began_ns : began_ns_) began_ns = began_ns == 0 ? now : began_ns;
  began_ns_.back() = now;
}

void Run::trace_call() {
  if (began_ns_.empty()) return;
  core_.trace->add({.began_ns = began_ns_.back(),
                    .ended_ns = core_.trace->clock_ns(),
                    .communicator = endpoint_->communicator,
                    .rank = endpoint_->rank,
                    .call_class = class_,
                    .sequence = signature_.sequence,
                    .call = to_text()});
  began_ns_.clear();
}

}  // namespace isthmus::exec
