// SPDX-License-Identifier: Apache-2.0
// Joining through the rendezvous. See join.h.
#include "comm/join.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::comm {

bootstrap::ControlOptions control_options(const Settings& settings) {
  // A heartbeat is due at least four times within the limit after which its absence means death.
  return {.heartbeat_ns = std::min(kSecondNs, settings.peer_timeout_ns / 4), .peer_timeout_ns = settings.peer_timeout_ns};
}

bool RootTask::poll(TimeNs now) {
  if (root_ != nullptr) {
    const Result<bool> met = root_->poll(now);
    if (!met.ok()) {
      log_.warn("rendezvous: {}", met.status().text());
      return false;
    }
    if (!*met) return true;
    hub_.emplace(root_->take_links(), options_, log_, now);
    root_.reset();
  }
  hub_->poll(now);
  return !hub_->finished();
}

std::shared_ptr<Watch> Join::make_watch(const Settings& settings, TimeNs now, Watch::Deliver deliver, std::function<void()> wake) {
  return std::make_shared<Watch>(member_->take_link(), options_.rank, options_.ranks, member_->table().hub_rank, control_options(settings),
                                 now, std::move(deliver), std::move(wake));
}

Result<std::shared_ptr<Join>> Join::start(const bootstrap::Surroundings& surroundings, const Settings& settings, Options options,
                                          TimeNs now, std::function<void()> changed) {
  bootstrap::Member::Options member{.rank = options.rank,
                                    .ranks = options.ranks,
                                    .blob = options.card.encode(),
                                    .timeout_ns = settings.setup_timeout_ns,
                                    .warn_after_ns = settings.warn_after_ns};
  ISTHMUS_ASSIGN(auto started, bootstrap::Member::start(surroundings, options.id, std::move(member), now));
  return std::make_shared<Join>(surroundings.crypto, std::move(options), std::move(started), std::move(changed));
}

bool Join::poll(TimeNs now) {
  const Result<bool> joined = member_->poll(now);
  if (joined.ok() && !*joined) return true;
  failure_ = joined.status();
  over_.store(true, std::memory_order_release);
  changed_();
  return false;
}

Result<Membership> Join::membership() const {
  if (!failure_.ok()) return failure_;
  const bootstrap::Table& table = member_->table();
  Membership membership;
  membership.id = bootstrap::communicator_number(table.session);
  membership.secret = bootstrap::session_key(crypto_, options_.id.secret, table.session, "data");
  membership.rank = options_.rank;
  membership.ranks = options_.ranks;
  membership.name = options_.name;
  for (int32_t rank = 0; rank < options_.ranks; ++rank) membership.family_ranks.push_back(rank);
  for (size_t rank = 0; rank < table.blobs.size(); ++rank) {
    auto card = exec::ProcessCard::decode(table.blobs[rank]);
    if (!card.ok()) return card.status().with_context(fmt::format("rank {}", rank));
    membership.cards.push_back(std::move(*card));
  }
  const uint64_t host = membership.cards[static_cast<size_t>(options_.rank)].host;
  membership.device = static_cast<int32_t>(std::count_if(membership.cards.begin(), membership.cards.begin() + options_.rank,
                                                         [&](const exec::ProcessCard& card) { return card.host == host; }));
  return membership;
}

}  // namespace isthmus::comm
