// SPDX-License-Identifier: Apache-2.0
// What a Process tells about itself: the flight recorder when something goes wrong, the trace, its counters. Called by the engine's
// callbacks, polls and when communicators end. A file that cannot be written is said in the log.
#include <fmt/format.h>

#include "exec/process.h"

namespace isthmus::exec {

// The recorder's latest events go to the user's file, or the last few of them to the log.
void Process::report_incident(const std::string& what) {
  constexpr uint64_t kLoggedEvents = 16;
  write_trace();
  const Recorder& recorder = engine_.recorder();
  const auto report = [&](uint64_t events) {
    return fmt::format("flight recorder of process {} on {}: {}\ncalls under way:\n{}latest events of {}:\n{}", identity_.pid,
                       identity_.hostname, what, engine_.calls_text(), recorder.recorded(), recorder.to_text(engine_.now(), events));
  };
  if (settings_.recorder_file.empty()) return log_.warn("{}", report(kLoggedEvents));
  const std::string path = expand_file_name(settings_.recorder_file, identity_.hostname, identity_.pid);
  std::ofstream file(path, std::ios::app);
  file << (path.ends_with(".jsonl") ? recorder.to_json_lines() : report(Recorder::kEvents) + "\n") << std::flush;
  log_.warn("{}; the latest events {} {}", what, file ? "are in" : "could not be written to", path);
}

void Process::open_trace() {
  if (settings_.trace_file.empty()) return;
  const std::string path = expand_file_name(settings_.trace_file, identity_.hostname, identity_.pid);
  trace_file_.open(path, std::ios::trunc);
  if (!trace_file_) return log_.warn("ISTHMUS_TRACE_FILE: {} cannot be written; there will be no trace", path);
  trace_ = std::make_unique<Trace>();
  engine_.trace_into(trace_.get());
  // The format allows for an array without its end, so the file is whole after every batch, however the process ends.
  trace_file_ << "[\n"
              << fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}, process {}"}}}},)", identity_.pid,
                             identity_.hostname, identity_.pid)
              << "\n"
              << std::flush;
}

void Process::write_trace() {
  if (trace_ != nullptr) trace_file_ << trace_->take(identity_.pid) << std::flush;
}

std::string Process::counters_text() const {
  const Counters& counters = engine_.counters();
  std::string text =
      fmt::format("{} calls ({} failed), {} plans built, {} frames received ({} stray), {} connections refused", counters.calls,
                  counters.failed_calls, plans_.misses(), counters.frames_received, counters.stray_frames, refused_connections_);
  for (const auto& [name, traffic] : engine_.traffic()) {
    text += fmt::format("; {}: {} bytes sent, {} received, {} offered, {} read in place", name, traffic.sent_bytes, traffic.received_bytes,
                        traffic.offered_bytes, traffic.read_bytes);
  }
  return text;
}

}  // namespace isthmus::exec
