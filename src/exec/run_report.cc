// SPDX-License-Identifier: Apache-2.0
// What a running call says about itself: its words, how far it is, what it waits for. Called when something takes long or has gone
// wrong, never on the way of a message; cannot fail.
#include <fmt/format.h>

#include "exec/run.h"

namespace isthmus::exec {

namespace {
constexpr uint32_t kDone = UINT32_MAX;
constexpr size_t kMostNamed = 4;  ///< of steps, messages: more would fill the log
}  // namespace

std::string Run::to_text() const {
  if (!is_send_recv()) return how_.empty() ? signature_.to_text() : fmt::format("{} ({})", signature_.to_text(), how_);
  std::string text;
  size_t named = 0;
  for (uint32_t index = 0; index < program_->plan.steps.size(); ++index) {
    const plan::Step& step = program_->plan.steps[index];
    if (!step.is_message()) continue;
    if (named++ == kMostNamed) return text + ", ...";
    const bool is_send = step.kind == plan::StepKind::send;
    const PeerState& state = peers_[program_->peer_of_step[index]];
    const uint32_t number = (is_send ? state.send_base : state.recv_base) + step.ordinal;
    const CallRecord* record = endpoint_->find_record(class_, step.peer, is_send, number);
    text += text.empty() ? "" : ", ";
    text += record != nullptr ? record->to_text()
                              : fmt::format("{} #{} {} rank {}", is_send ? "send" : "recv", number, is_send ? "to" : "from", step.peer);
  }
  return text.empty() ? "a group of copies" : text;
}

std::string Run::progress_text() const {
  std::string waits;
  size_t named = 0;
  uint32_t done = 0;
  for (uint32_t index = 0; index < program_->plan.steps.size(); ++index) {
    const plan::Step& step = program_->plan.steps[index];
    done += pending_[index] == kDone ? 1 : 0;
    if (pending_[index] != 0 || named > kMostNamed) continue;
    waits += waits.empty() ? "; waits for " : ", ";
    if (named++ == kMostNamed) {
      waits += "...";
    } else if (step.kind == plan::StepKind::send) {
      waits += fmt::format("rank {} to take message #{} of {} bytes", step.peer, step.ordinal, bytes_of(step.src()));
    } else if (step.receives()) {
      const uint64_t arrived = inbound_[program_->inbound[index]].arrived;
      waits += fmt::format("message #{} of {} bytes from rank {}", step.ordinal, bytes_of(step.dst()), step.peer);
      if (arrived > 0) waits += fmt::format(" ({} have come)", arrived);
    } else {
      waits += fmt::format("its own {} of {} bytes", plan::name_of(step.kind), bytes_of(step.dst()));
    }
  }
  return fmt::format("{} of {} steps done{}", done, program_->plan.steps.size(), waits);
}

}  // namespace isthmus::exec
