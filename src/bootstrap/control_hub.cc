// SPDX-License-Identifier: Apache-2.0
// ControlHub of control.h: hears every rank, tells all others. Who speaks is known by the link, never by what a message claims.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "bootstrap/control.h"
#include "bootstrap/control_messages.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kMaxQueuedBytes = 1 << 20;  // per rank; beyond it opaque messages are dropped, events never

}  // namespace

ControlHub::ControlHub(std::vector<std::optional<Link>> links, const ControlOptions& options, const Logger& log, TimeNs now)
    : seats_(links.size()), options_(options), log_(log), present_(static_cast<int32_t>(links.size())), beat_at_(now), due_at_(now) {
  for (size_t rank = 0; rank < links.size(); ++rank) {
    Seat& taken = seats_[rank];
    taken.link = std::move(links[rank]);
    taken.heard_at = now;
    if (taken.link) {
      taken.link->set_max_body_bytes(max_control_body_bytes());
    } else {
      taken.lost = "it went away while the communicator formed";
    }
  }
}

bool ControlHub::poll(TimeNs now) {
  received_ = false;
  TimeNs longest_silence_at = kNever;
  for (int32_t rank = 0; rank < static_cast<int32_t>(seats_.size()); ++rank) {
    if (!seat(rank).link) continue;
    if (const Status alive = serve(rank, now); !alive.ok()) seat(rank).lost = alive.text();
    if (seat(rank).link) longest_silence_at = std::min(longest_silence_at, seat(rank).heard_at);
  }
  if (now >= beat_at_) {
    beat();
    beat_at_ = now + options_.heartbeat_ns;
  }
  bury_the_lost();
  due_at_ = finished() ? kNever : std::min(beat_at_, later(longest_silence_at, options_.peer_timeout_ns));
  return received_;
}

void ControlHub::waits(std::vector<transport::Wait>& waits) const {
  for (const Seat& each : seats_)
    if (each.link) each.link->waits(waits);
}

Status ControlHub::serve(int32_t rank, TimeNs now) {
  Seat& mine = seat(rank);
  ISTHMUS_ASSIGN(const bool heard, hear(rank));
  if (heard) mine.heard_at = now;
  if (!mine.link) return {};  // left just now
  if (now - mine.heard_at >= options_.peer_timeout_ns)
    return timeout_error(fmt::format("silent for {}", duration_text(now - mine.heard_at)));
  return mine.link->flush();
}

/// Takes everything that has come from `rank`; true if anything had.
Result<bool> ControlHub::hear(int32_t rank) {
  bool heard = false;
  for (Seat& mine = seat(rank); mine.link; heard = received_ = true) {
    ISTHMUS_ASSIGN(const std::optional<Message> message, mine.link->receive());
    if (!message) break;
    ISTHMUS_TRY(on_message(rank, *message));
  }
  return heard;
}

Status ControlHub::on_message(int32_t from, const Message& message) {
  ISTHMUS_ASSIGN(const ControlMessage said, decode_control(message, static_cast<int32_t>(seats_.size())));
  switch (said.type) {
    case ControlType::heartbeat:
      return {};
    case ControlType::message:
      carry(from, said.rank, said.body);
      return {};
    case ControlType::abort:
      if (!std::exchange(seat(from).aborted, true)) flood(static_cast<uint8_t>(ControlType::abort), from, said.body);
      return {};
    case ControlType::left:
      seat(from).link.reset();
      seat(from).lost.clear();  // a farewell counts, even if something could not be written to it since
      --present_;
      flood(static_cast<uint8_t>(ControlType::left), from, {});
      return {};
    case ControlType::dead:
      break;
  }
  return remote_error("it declares others dead, which is not a rank's business");
}

/// To everybody but the one it is about.
void ControlHub::flood(uint8_t type, int32_t about, std::span<const std::byte> body) {
  const SharedBytes bytes = encode_control(about, body);
  for (int32_t rank = 0; rank < static_cast<int32_t>(seats_.size()); ++rank) {
    Seat& each = seat(rank);
    if (rank == about || !each.link) continue;
    each.link->send(type, bytes);
    if (const Status alive = each.link->flush(); !alive.ok() && each.lost.empty()) each.lost = alive.text();
  }
}

void ControlHub::carry(int32_t from, int32_t to, std::span<const std::byte> body) {
  Seat& receiver = seat(to);
  if (!receiver.link) return;
  if (receiver.link->unsent_bytes() > kMaxQueuedBytes) {
    ++dropped_messages_;
    return;
  }
  receiver.link->send(static_cast<uint8_t>(ControlType::message), encode_control(from, body));
  if (const Status alive = receiver.link->flush(); !alive.ok() && receiver.lost.empty()) receiver.lost = alive.text();
}

void ControlHub::beat() {
  const SharedBytes bytes = encode_control(0, {});
  for (Seat& each : seats_) {
    if (!each.link || each.link->unsent_bytes() > 0) continue;
    each.link->send(static_cast<uint8_t>(ControlType::heartbeat), bytes);
    if (const Status alive = each.link->flush(); !alive.ok() && each.lost.empty()) each.lost = alive.text();
  }
}

/// Declares dead whoever was lost; telling the others may find more of them.
void ControlHub::bury_the_lost() {
  for (bool found = true; found;) {
    found = false;
    for (int32_t rank = 0; rank < static_cast<int32_t>(seats_.size()); ++rank) {
      Seat& dead = seat(rank);
      if (dead.lost.empty()) continue;
      const std::string why = std::exchange(dead.lost, {});
      const auto text = as_bytes(std::string_view(why).substr(0, kMaxControlTextBytes));
      if (dead.link) {
        [[maybe_unused]] const Result<bool> last_words = hear(rank);
        if (!dead.link) continue;                                                              // it had said farewell
        dead.link->send(static_cast<uint8_t>(ControlType::dead), encode_control(rank, text));  // in case it can still hear
        [[maybe_unused]] const Status told = dead.link->flush();
        dead.link.reset();
      }
      --present_;
      log_.info(Subsystem::bootstrap, "Control: rank {} is dead: {}", rank, why);
      flood(static_cast<uint8_t>(ControlType::dead), rank, text);
      found = true;
    }
  }
}

}  // namespace isthmus::bootstrap
