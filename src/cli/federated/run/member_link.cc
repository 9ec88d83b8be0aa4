// SPDX-License-Identifier: Apache-2.0
// member.h: the connection to the coordinator.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/text.h"
#include "cli/ending.h"
#include "cli/federated/run/door.h"
#include "cli/federated/run/member.h"
#include "federated/aggregate_messages.h"
#include "federated/waiting.h"

namespace isthmus::cli {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  // of a message of the coordinator: models of all clusters
constexpr TimeNs kPauseNs = 500 * kMillisecondNs;
constexpr TimeNs kPartingNs = kSecondNs;

}  // namespace

MemberLink::MemberLink(const Premises& premises, uint32_t member, TimeNs reach_ns, const Fd& signals)
    : premises_(premises), surroundings_(*premises.surroundings), member_(member), reach_ns_(reach_ns), signals_(signals) {}

Result<RunTerms> MemberLink::join(uint64_t images) {
  const TimeNs by = later(federated::clock_now(), reach_ns_);
  refused_.clear();
  for (;;) {
    ISTHMUS_ASSIGN(auto terms, try_to_join(images, by));
    if (terms) return std::move(*terms);
    ISTHMUS_TRY(wait(std::min(by, federated::clock_now() + kPauseNs)));
    if (federated::clock_now() >= by) return timeout_error(fmt::format("not let in within {}: {}", duration_text(reach_ns_), refused_));
  }
}

/// One connection. Nothing: it was refused for now.
Result<std::optional<RunTerms>> MemberLink::try_to_join(uint64_t images, TimeNs by) {
  link_.reset();
  kept_.clear();
  const wire::Hello mine{.communicator = run_number(),
                         .rank = static_cast<int32_t>(member_),
                         .ranks = static_cast<int32_t>(federated::kMaxContributors),
                         .purpose = wire::Purpose::aggregate,
                         .process = surroundings_.process};
  approach_.emplace(surroundings_, premises_.addresses, mine, run_key(surroundings_.crypto, premises_.key), "coordinator",
                    transport::StreamOptions{.user_timeout_ns = premises_.settings.peer_timeout_ns});
  while (!link_) {
    if (auto stream = approach_->poll(federated::clock_now())) link_.emplace(std::move(stream), kMostBytes);
    if (link_) break;
    if (federated::clock_now() >= by) {
      return timeout_error(
          fmt::format("the coordinator could not be reached within {}{}", duration_text(reach_ns_), approach_->failures()));
    }
    ISTHMUS_TRY(wait(std::min({by, approach_->due(), federated::clock_now() + kSecondNs})));
  }
  approach_.reset();
  heard_at_ = federated::clock_now();
  say(RunType::join, encode(RunJoin{.images = images}));
  auto said = hear();
  if (!said.ok()) {
    if (signal_ != 0 || federated::clock_now() >= by) return said.status();
    refused_ = said.status().text();
    return std::optional<RunTerms>();
  }
  const Said& first = said->front();
  if (first.type == RunType::refusal) {
    const Status why = federated::decode_refusal(first.body);
    if (why.code() != Code::remote_error) return why;  // it will not be otherwise soon
    refused_ = why.text();
    return std::optional<RunTerms>();
  }
  if (first.type != RunType::terms) return remote_error("the coordinator does not say what its terms are");
  ISTHMUS_ASSIGN(RunTerms terms, decode_run_terms(first.body));
  kept_.assign(std::make_move_iterator(said->begin() + 1), std::make_move_iterator(said->end()));
  return std::optional<RunTerms>(std::move(terms));
}

Result<std::vector<MemberLink::Said>> MemberLink::hear() {
  if (!kept_.empty()) return std::exchange(kept_, {});
  for (;;) {
    ISTHMUS_TRY(link_->flush());
    ISTHMUS_ASSIGN(std::vector<Said> said, read());
    if (!said.empty()) return said;
    const TimeNs silent_by = later(heard_at_, premises_.settings.peer_timeout_ns);
    if (federated::clock_now() >= silent_by) {
      return timeout_error(fmt::format("the coordinator has said nothing for {}", duration_text(premises_.settings.peer_timeout_ns)));
    }
    ISTHMUS_TRY(wait(silent_by));
  }
}

Result<std::vector<MemberLink::Said>> MemberLink::read() {
  std::vector<Said> said;
  for (;;) {
    const auto message = link_->receive();
    if (!message.ok() && said.empty()) return message.status();
    if (!message.ok() || !message->has_value()) return said;
    heard_at_ = federated::clock_now();
    received_bytes_ += (*message)->body.size() + bootstrap::Link::kHeaderBytes;
    const auto type = static_cast<RunType>((*message)->type);
    if (type != RunType::beat) said.push_back({.type = type, .body = {(*message)->body.begin(), (*message)->body.end()}});
  }
}

void MemberLink::say(RunType type, const bootstrap::SharedBytes& body) {
  if (!link_) return;
  sent_bytes_ += body->size() + bootstrap::Link::kHeaderBytes;
  link_->send(static_cast<uint8_t>(type), body);
}

Status MemberLink::wait(TimeNs by) {
  std::vector<transport::Wait> waits = {{.fd = signals_.get()}};
  if (link_) link_->waits(waits);
  if (approach_) approach_->waits(waits);
  federated::wait_until(waits, by);
  signal_ = pending_signal(signals_);
  return signal_ == 0 ? Status() : remote_error(fmt::format("stopped: {}", strsignal(signal_)));
}

/// If it does not go out soon, the closed connection says the same.
void MemberLink::leave() {
  if (!link_) return;
  say(RunType::leave, std::make_shared<const std::vector<std::byte>>());
  for (const TimeNs by = federated::clock_now() + kPartingNs;
       link_->flush().ok() && link_->unsent_bytes() > 0 && federated::clock_now() < by;) {
    std::vector<transport::Wait> waits;
    link_->waits(waits);
    federated::wait_until(waits, by);
  }
  link_.reset();
}

}  // namespace isthmus::cli
