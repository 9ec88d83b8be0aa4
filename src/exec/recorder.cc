// SPDX-License-Identifier: Apache-2.0
// Words of the flight recorder. See recorder.h.
#include "exec/recorder.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"

namespace isthmus::exec {

std::string_view name_of(Moment moment) {
  static constexpr std::array<std::string_view, 8> kNames = {"opened", "closed", "call", "lost", "mismatched", "stalled", "late", "failed"};
  return kNames[static_cast<size_t>(moment)];
}

namespace {

std::string call_of(const Event& event) {
  if (event.collective == Collective::sendrecv) return fmt::format("send/recv group #{}", event.sequence);
  if (event.moment != Moment::call) return fmt::format("call #{} {}", event.sequence, name_of(event.collective));
  const Signature signature{.collective = event.collective,
                            .type = event.type,
                            .op = event.op,
                            .root = event.peer,
                            .count = event.count,
                            .sequence = event.sequence};
  return event.how_length == 0 ? signature.to_text() : fmt::format("{} ({})", signature.to_text(), event.how());
}

}  // namespace

std::string Event::to_text() const {
  std::string text = fmt::format("rank {} of {:#x}", rank, communicator);
  if (about_call()) text += ": " + call_of(*this);
  if (moment == Moment::call) {
    if (first_from >= 0) text += fmt::format(", first frame from rank {}", first_from);
    if (ended_ns != kUnknown) text += fmt::format(", ended after {}", duration_text(ended_ns - when_ns));
  } else {
    text += fmt::format("{} {}", about_call() ? "" : ":", name_of(moment));
    if (moment == Moment::lost || moment == Moment::mismatched) text += fmt::format(", rank {}", peer);
    if (moment == Moment::opened) text += fmt::format(", {} ranks", count);
    if (moment == Moment::failed && peer >= 0) text += fmt::format(", by rank {}", peer);
  }
  return code == Code::ok ? text : fmt::format("{} ({})", text, code_name(code));
}

std::string Event::to_json() const {
  std::string text =
      fmt::format(R"({{"time_ns":{},"event":"{}","communicator":"{:#x}","rank":{})", when_ns, name_of(moment), communicator, rank);
  if (peer >= 0) text += fmt::format(R"(,"peer":{})", peer);
  if (about_call()) {
    text += fmt::format(R"(,"collective":"{}","sequence":{},"count":{},"type":"{}","op":"{}","how":"{}")", isthmus::name_of(collective),
                        sequence, count, isthmus::name_of(type), isthmus::name_of(op), how());
  }
  if (first_from >= 0) text += fmt::format(R"(,"first_from":{})", first_from);
  if (ended_ns != kUnknown) text += fmt::format(R"(,"ended_ns":{})", ended_ns);
  if (code != Code::ok) text += fmt::format(R"(,"code":"{}")", code_name(code));
  return text + "}";
}

void Recorder::stamp(TimeNs now) {
  const uint64_t first = std::max(stamped_, recorded_ - std::min<uint64_t>(recorded_, kEvents));
  for (uint64_t i = first; i < recorded_; ++i) {
    Event& event = events_[i & (kEvents - 1)];
    if (event.when_ns == Event::kUnknown) event.when_ns = now;
  }
  stamped_ = recorded_;
}

std::string Recorder::to_text(TimeNs now, uint64_t most) const {
  std::string text;
  for_each_latest(most, [&](const Event& event) {
    const TimeNs age_ns = event.when_ns == Event::kUnknown ? 0 : now - event.when_ns;
    text += fmt::format("{:>12.6f} s  {}\n", -static_cast<double>(age_ns) / static_cast<double>(kSecondNs), event.to_text());
  });
  return text;
}

std::string Recorder::to_json_lines(uint64_t most) const {
  std::string text;
  for_each_latest(most, [&](const Event& event) { text += event.to_json() + "\n"; });
  return text;
}

}  // namespace isthmus::exec
