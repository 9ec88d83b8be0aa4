// SPDX-License-Identifier: Apache-2.0
// ControlMember of control.h: one rank's end of the star.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "bootstrap/control.h"
#include "bootstrap/control_messages.h"

namespace isthmus::bootstrap {
namespace {

constexpr TimeNs kLeaveNs = kSecondNs;  // a farewell that cannot be sent by then is given up

}  // namespace

ControlMember::ControlMember(Link link, int32_t rank, int32_t ranks, int32_t hub_rank, const ControlOptions& options, ControlSink& sink,
                             TimeNs now)
    : link_(std::move(link)),
      rank_(rank),
      ranks_(ranks),
      hub_rank_(hub_rank),
      options_(options),
      sink_(sink),
      heard_at_(now),
      beat_at_(now),
      due_at_(now) {
  link_->set_max_body_bytes(max_control_body_bytes());
}

bool ControlMember::poll(TimeNs now) {
  received_ = false;
  if (!link_) return false;
  Status alive = receive_all(now);
  if (!link_) return true;  // dismissed
  if (alive.ok() && now - heard_at_ >= options_.peer_timeout_ns) {
    alive = timeout_error(fmt::format("silent for {}", duration_text(now - heard_at_)));
  }
  if (alive.ok() && now >= beat_at_) {
    if (link_->unsent_bytes() == 0) say(static_cast<uint8_t>(ControlType::heartbeat), 0, {});
    beat_at_ = now + options_.heartbeat_ns;
  }
  if (alive.ok()) alive = link_->flush();
  if (leaving_ && leave_by_ == kNever) leave_by_ = now + kLeaveNs;
  if (!alive.ok()) on_hub_lost(alive, now);
  if (now >= leave_by_) link_.reset();
  due_at_ = link_ ? std::min({beat_at_, leave_by_, later(heard_at_, options_.peer_timeout_ns)}) : kNever;
  return received_;
}

void ControlMember::waits(std::vector<transport::Wait>& waits) const {
  if (link_) link_->waits(waits);
}

void ControlMember::abort(std::string_view text) {
  if (!link_ || leaving_ || std::exchange(aborted_, true)) return;
  say(static_cast<uint8_t>(ControlType::abort), rank_, as_bytes(text.substr(0, kMaxControlTextBytes)));
}

Status ControlMember::send(int32_t to, std::span<const std::byte> body) {
  if (to < 0 || to >= ranks_) return invalid_argument(fmt::format("there is no rank {} among {}", to, ranks_));
  if (body.size() > kMaxControlBytes)
    return invalid_argument(fmt::format("a control message of {} bytes exceeds {}", body.size(), kMaxControlBytes));
  if (!link_ || leaving_) return invalid_usage("this rank has left the control plane");
  say(static_cast<uint8_t>(ControlType::message), to, body);
  return {};
}

void ControlMember::leave() {
  if (!link_ || std::exchange(leaving_, true)) return;
  say(static_cast<uint8_t>(ControlType::left), rank_, {});
}

void ControlMember::say(uint8_t type, int32_t rank, std::span<const std::byte> body) {
  link_->send(type, encode_control(rank, body));
  due_at_ = 0;  // poll() sends it
}

Status ControlMember::receive_all(TimeNs now) {
  while (link_) {
    ISTHMUS_ASSIGN(const std::optional<Message> message, link_->receive());
    if (!message) break;
    received_ = true;
    heard_at_ = now;
    if (!leaving_) ISTHMUS_TRY(on_message(*message));
  }
  return {};
}

Status ControlMember::on_message(const Message& message) {
  ISTHMUS_ASSIGN(const ControlMessage said, decode_control(message, ranks_));
  switch (said.type) {
    case ControlType::heartbeat:
      break;
    case ControlType::dead:
      sink_.on_dead(said.rank, said.text());
      if (said.rank == rank_) link_.reset();  // the others go on without this rank
      break;
    case ControlType::abort:
      sink_.on_abort(said.rank, said.text());
      break;
    case ControlType::left:
      hub_rank_left_ |= said.rank == hub_rank_;
      sink_.on_left(said.rank);
      break;
    case ControlType::message:
      sink_.on_message(said.rank, said.body);
      break;
  }
  return {};
}

void ControlMember::on_hub_lost(const Status& why, TimeNs now) {
  [[maybe_unused]] const Status ended = receive_all(now);  // what the hub said before it went
  if (!link_) return;
  link_.reset();
  if (leaving_) return;
  if (hub_rank_ < 0) {
    sink_.on_unwatched(fmt::format("the process that made the communicator's id, which kept the ranks in touch, is gone ({})", why.text()));
  } else if (hub_rank_left_ || hub_rank_ == rank_) {
    sink_.on_unwatched(fmt::format("rank {}, whose process kept the ranks in touch, has left", hub_rank_));
  } else {
    sink_.on_dead(hub_rank_, why.text());
  }
}

}  // namespace isthmus::bootstrap
