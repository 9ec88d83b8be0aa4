// SPDX-License-Identifier: Apache-2.0
// Marks and their JSON. See trace.h.
#include "exec/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace isthmus::exec {

namespace {

double microseconds(TimeNs time_ns) { return static_cast<double>(time_ns) / static_cast<double>(kMicrosecondNs); }

std::string name_of_step(const Mark& mark) {
  if (mark.peer < 0) return std::string(plan::name_of(mark.kind));
  return fmt::format("{} #{} {} rank {}", plan::name_of(mark.kind), mark.ordinal, mark.kind == plan::StepKind::send ? "to" : "from",
                     mark.peer);
}

}  // namespace

void Trace::enter_poll(TimeNs now) {
  clock_ns_ = now;
  for (; timed_ < marks_.size(); ++timed_) {
    if (marks_[timed_].began_ns == Mark::kUnknown) marks_[timed_].began_ns = now;
    if (marks_[timed_].ended_ns == Mark::kUnknown) marks_[timed_].ended_ns = now;
  }
}

void Trace::add(Mark mark) {
  if (taken_ + marks_.size() < kMostMarks) marks_.push_back(std::move(mark));
}

// The number of the row on which a mark is shown; a new row is given its name.
size_t Trace::track_of(const Mark& mark, int32_t pid, std::string& text) {
  const Track track{.communicator = mark.communicator, .rank = mark.rank, .call_class = mark.call_class};
  const auto found = std::find(tracks_.begin(), tracks_.end(), track);
  const auto number = static_cast<size_t>(found - tracks_.begin());
  if (found != tracks_.end()) return number;
  tracks_.push_back(track);
  fmt::format_to(std::back_inserter(text),
                 R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"rank {} of {:#x}, {}"}}}},)"
                 "\n",
                 pid, number, mark.rank, mark.communicator, mark.call_class == wire::CallClass::collective ? "collectives" : "send/recv");
  return number;
}

std::string Trace::take(int32_t pid) {
  std::string text;
  for (const Mark& mark : marks_) {
    const size_t track = track_of(mark, pid, text);
    const TimeNs began_ns = mark.began_ns == Mark::kUnknown ? mark.ended_ns : mark.began_ns;
    const TimeNs ended_ns = std::max(began_ns, mark.ended_ns);
    ++taken_;
    if (!mark.call.empty()) {
      fmt::format_to(std::back_inserter(text),
                     R"({{"name":"{}","cat":"call","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}},)"
                     "\n",
                     mark.call, pid, track, microseconds(began_ns), microseconds(ended_ns - began_ns));
      continue;
    }
    // Steps of one call overlap, so each is a pair of its own.
    const std::string common = fmt::format(R"("name":"{}","cat":"step","id":{},"pid":{},"tid":{})", name_of_step(mark), taken_, pid, track);
    fmt::format_to(std::back_inserter(text),
                   R"({{{},"ph":"b","ts":{:.3f},"args":{{"call":{},"bytes":{}}}}},)"
                   "\n"
                   R"({{{},"ph":"e","ts":{:.3f}}},)"
                   "\n",
                   common, microseconds(began_ns), mark.sequence, mark.bytes, common, microseconds(ended_ns));
  }
  marks_.clear();
  timed_ = 0;
  return text;
}

}  // namespace isthmus::exec
