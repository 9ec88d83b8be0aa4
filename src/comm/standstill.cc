// SPDX-License-Identifier: Apache-2.0
// Questions, answers and probes. See standstill.h.
#include "comm/standstill.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::comm {

using exec::Need;
using exec::Run;

namespace {

enum class Kind : uint8_t { question = 1, answer = 2, probe = 3 };

constexpr size_t kMaxAnswer = 400;
constexpr size_t kMaxText = 120;
constexpr size_t kMostHops = 8;      ///< of a probe; longer chains are left to the warning
constexpr size_t kMostBranches = 8;  ///< ranks that a probe goes on to
constexpr size_t kMostAnswers = 8;   ///< in a warning

void write(Writer& writer, const Need& need) {
  writer.i32(need.rank).u8(static_cast<uint8_t>(need.call_class)).u8(need.message ? 1 : 0).u32(need.number).u32(need.ordinal);
}

Need read_need(Reader& reader) {
  Need need;
  need.rank = reader.i32();
  const uint8_t call_class = reader.u8();
  if (call_class > static_cast<uint8_t>(wire::CallClass::send_recv)) reader.fail();
  need.call_class = static_cast<wire::CallClass>(call_class & 1U);
  need.message = reader.u8() != 0;
  need.number = reader.u32();
  need.ordinal = reader.u32();
  return need;
}

bool before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace

// --- questions and answers ---------------------------------------------------------------------------------------------------------

void Standstill::ask(const Run& run) {
  heard_.clear();
  std::array<std::byte, 6> body{};
  Writer(body).u8(static_cast<uint8_t>(Kind::question)).u8(static_cast<uint8_t>(run.call_class())).u32(run.signature().sequence);
  size_t asked = 0;
  run.for_each_missing([&](int32_t rank) {
    if (asked++ < kMostAnswers) surroundings_.send(rank, body);
  });
}

void Standstill::on_question(int32_t from, Reader& reader) {
  const uint8_t call_class = reader.u8();
  const uint32_t number = reader.u32();
  if (!reader.finished() || call_class > static_cast<uint8_t>(wire::CallClass::send_recv)) return;
  const std::string text = situation(static_cast<wire::CallClass>(call_class), number).substr(0, kMaxAnswer);
  std::vector<std::byte> body(5 + text.size());
  Writer(body).u8(static_cast<uint8_t>(Kind::answer)).sized_text(text);
  surroundings_.send(from, body);
}

// Where this rank stands with a collective of that number, and what it is doing.
std::string Standstill::situation(wire::CallClass call_class, uint32_t number) const {
  const exec::Lane& lane = endpoint_.lanes[0];
  std::string text;
  if (call_class == wire::CallClass::collective) {
    const bool in_it = lane.active != nullptr && lane.active->signature().sequence == number;
    if (!before(number, lane.next_sequence)) {
      text = fmt::format("has not made call #{}; ", number);
    } else if (lane.active == nullptr || before(number, lane.active->signature().sequence)) {
      text = "is through with it; ";
    } else if (!in_it) {
      text = "has made it, but an earlier call goes first; ";
    }
  }
  bool busy = false;
  for (const exec::Lane& each : endpoint_.lanes) {
    if (each.active == nullptr) continue;
    text += fmt::format("{}is in {}, waiting for ranks {}", busy ? " and " : "", each.active->to_text(), each.active->missing_ranks());
    busy = true;
  }
  if (!busy) {
    text += "is in no call";
    const uint64_t last = endpoint_.recorded;
    if (last > 0) text += fmt::format(", its latest was {}", endpoint_.history[(last - 1) % exec::Endpoint::kHistory].to_text());
  }
  const std::string elsewhere = surroundings_.elsewhere();
  return elsewhere.empty() ? text : fmt::format("{}; its process is in {}", text, elsewhere);
}

std::string Standstill::answers(const Run& run) const {
  std::string text;
  size_t told = 0;
  run.for_each_missing([&](int32_t rank) {
    if (told++ >= kMostAnswers) return;
    const auto heard = heard_.find(rank);
    text += fmt::format("\n  {} {}", surroundings_.name_of(rank),
                        heard != heard_.end() ? heard->second : "does not answer: it is stopped, or cannot be reached");
  });
  return text;
}

void Standstill::on_message(int32_t from, std::span<const std::byte> body) {
  Reader reader(body);
  switch (static_cast<Kind>(reader.u8())) {
    case Kind::question:
      return on_question(from, reader);
    case Kind::answer: {
      std::string text = reader.sized_text(kMaxAnswer);
      if (reader.finished()) heard_[from] = std::move(text);
      return;
    }
    case Kind::probe:
      return on_probe(from, reader);
  }
}

// --- probes ------------------------------------------------------------------------------------------------------------------------

void Standstill::probe(const Run& run) {
  std::vector<Need> needs;
  run.needs(needs);
  go_on({.number = probes_++, .hops = {}}, run, needs);
}

// Sends the probe on to the ranks without which the run cannot go on.
void Standstill::go_on(const Probe& probe, const Run& run, std::span<const Need> needs) {
  std::vector<int32_t> sent;
  for (const Need& need : needs) {
    if (sent.size() == kMostBranches || std::find(sent.begin(), sent.end(), need.rank) != sent.end()) continue;
    sent.push_back(need.rank);
    Probe longer = probe;
    longer.hops.push_back({.rank = endpoint_.rank, .need = need, .text = run.to_text().substr(0, kMaxText)});
    send_probe(longer, need.rank);
    if (!run.running()) return;  // it has come back while it was being sent
  }
}

void Standstill::send_probe(const Probe& probe, int32_t to) const {
  std::vector<std::byte> body(6 + probe.hops.size() * (22 + kMaxText));
  Writer writer(body);
  writer.u8(static_cast<uint8_t>(Kind::probe)).u32(probe.number).u8(static_cast<uint8_t>(probe.hops.size()));
  for (const Hop& hop : probe.hops) {
    writer.i32(hop.rank);
    write(writer, hop.need);
    writer.sized_text(hop.text);
  }
  body.resize(writer.written());
  surroundings_.send(to, body);
}

bool Standstill::read_probe(Reader& reader, Probe& probe) {
  probe.number = reader.u32();
  const size_t hops = reader.u8();
  for (size_t i = 0; i < hops && reader.ok(); ++i) {
    Hop hop;
    hop.rank = reader.i32();
    hop.need = read_need(reader);
    hop.text = reader.sized_text(kMaxText);
    probe.hops.push_back(std::move(hop));
  }
  return reader.finished() && !probe.hops.empty() && probe.hops.size() <= kMostHops;
}

void Standstill::on_probe(int32_t from, Reader& reader) {
  Probe probe;
  if (!read_probe(reader, probe) || probe.hops.back().rank != from || probe.hops.back().need.rank != endpoint_.rank) return;
  const Hop& first = probe.hops.front();
  std::vector<Need> needs;
  const Run* run = needs_before(probe.hops.back().need, from, needs);
  if (run == nullptr) return;
  if (first.rank == endpoint_.rank) {  // it has come back: I still need what I needed when I sent it
    if (std::find(needs.begin(), needs.end(), first.need) != needs.end()) surroundings_.fail(standstill(probe));
    return;
  }
  const std::pair<int32_t, uint32_t> name(first.rank, probe.number);
  const auto kept = passed_on_.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(passed_, passed_on_.size()));
  if (probe.hops.size() == kMostHops || std::find(passed_on_.begin(), kept, name) != kept) return;
  passed_on_[passed_++ % passed_on_.size()] = name;
  go_on(probe, *run, needs);
}

// The call that holds the calling thread of this rank, so that it makes no other before that one has ended; null if that is not sure.
const Run* Standstill::held_by() const {
  if (surroundings_.has_backlog()) return nullptr;
  const Run* held = nullptr;
  for (const exec::Lane& lane : endpoint_.lanes) {
    if (lane.active == nullptr) continue;
    if (lane.active->caller() == nullptr || (held != nullptr && held->caller() != lane.active->caller())) return nullptr;
    held = lane.active;
  }
  return held;
}

// Rank `asker` needs something of this one. If that cannot come before others have done something: the call that waits for them, and
// what it needs. Null if it is on its way, or may come yet.
const Run* Standstill::needs_before(const Need& asked, int32_t asker, std::vector<Need>& needs) const {
  const exec::Lane& lane = endpoint_.lanes[static_cast<size_t>(asked.call_class)];
  const exec::Flow& flow = endpoint_.flows[static_cast<size_t>(asker)];
  const uint32_t made = asked.call_class == wire::CallClass::collective ? lane.next_sequence
                        : asked.message                                 ? flow.next_send
                                                                        : flow.next_recv;
  if (!before(asked.number, made)) {  // that call has not been made: the one that holds its caller comes first
    const Run* held = held_by();
    if (held != nullptr) held->needs(needs);
    return held;
  }
  const Run* active = lane.active;
  if (active == nullptr || !active->running() || active->is_past(asker, asked)) return nullptr;
  if (!active->contains(asker, asked)) {
    active->needs(needs);  // it waits its turn
  } else if (asked.message) {
    active->needs_to_send(asker, asked, needs);
  }
  return active;
}

Status Standstill::standstill(const Probe& probe) const {
  std::string text = "mismatch: the calls wait for each other:";
  for (const Hop& hop : probe.hops) text += fmt::format(" rank {} is in {} and needs rank {};", hop.rank, hop.text, hop.need.rank);
  text.back() = '.';
  return invalid_usage(text, probe.hops.size() > 1 ? probe.hops[1].rank : probe.hops[0].need.rank);
}

}  // namespace isthmus::comm
