// SPDX-License-Identifier: Apache-2.0
// sums.h.
#include "cli/federated/run/sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/ending.h"
#include "federated/waiting.h"

namespace isthmus::cli {

using federated::Contributor;
using federated::ContributorOptions;

std::vector<MemberSums::Made> MemberSums::make(uint32_t round, std::span<const MemberWork::Update> updates, const Fd& signals) {
  std::vector<Made> made(updates.size());
  std::vector<Channel*> channels(updates.size(), nullptr);
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].sum == SumKind::none) {
      made[i].status = invalid_usage("there is no sum");
      continue;
    }
    auto channel = channel_of(updates[i], round);
    made[i].status = channel.status();
    if (channel.ok()) channels[i] = *channel;
  }
  std::vector<transport::Wait> waits;
  for (;;) {
    const TimeNs now = federated::clock_now();
    TimeNs due = kNever;
    bool waiting = false;
    if (signal_ == 0) signal_ = pending_signal(signals);
    waits.assign(1, {.fd = signals.get()});
    for (size_t i = 0; i < updates.size(); ++i) {
      Channel* const channel = channels[i];
      if (channel == nullptr || channel->state == State::over) continue;
      made[i].status = signal_ != 0 ? remote_error("it was stopped") : step(*channel, updates[i], made[i], now);
      if (!made[i].status.ok()) {  // what it stands at is not known any more
        channel->contributor->leave();
        channels_.erase({updates[i].cluster, updates[i].sum});
        channels[i] = nullptr;
      } else if (channel->state != State::over) {
        waiting = true;
        channel->contributor->waits(waits);
        due = std::min(due, channel->contributor->due());
      }
    }
    if (!waiting) return made;
    federated::wait_until(waits, due);
  }
}

Result<MemberSums::Channel*> MemberSums::channel_of(const MemberWork::Update& update, uint32_t round) {
  Channel& channel = channels_[{update.cluster, update.sum}];
  if (channel.contributor && channel.round + 1 != round) {  // its rounds have gone on without this one
    channel.contributor->leave();
    channel = {};
  }
  channel.round = round;
  channel.state = State::connecting;
  if (!channel.contributor) {
    const bool masked = update.sum == SumKind::masked;
    const auto& ports = masked ? terms_.masked_ports : terms_.plain_ports;
    if (update.cluster >= ports.size()) return remote_error(fmt::format("nobody adds up for cluster {}", update.cluster));
    ContributorOptions options;
    options.addresses = premises_.addresses;
    for (transport::Address& address : options.addresses) address.port = ports[update.cluster];
    options.rank = member_;
    options.ranks = terms_.members;
    options.reach_timeout_ns = options.call_timeout_ns = terms_.deadline_ns;
    options.peer_timeout_ns = premises_.settings.peer_timeout_ns;
    options.target = &kernels::select_target(premises_.settings.simd);
    options.group = masked ? terms_.masked : terms_.plain;
    options.masking = masking_;
    channel.group = std::make_unique<federated::GroupSum>(federated::GroupOptions{.rules = *options.group}, masking_);
    ISTHMUS_ASSIGN(channel.contributor, Contributor::make(*premises_.surroundings, premises_.key, std::move(options)));
  }
  channel.contributor->set_epoch(round);
  channel.contributor->connect(federated::clock_now());
  return &channel;
}

Status MemberSums::step(Channel& channel, const MemberWork::Update& update, Made& made, TimeNs now) {
  Contributor& contributor = *channel.contributor;
  auto over = contributor.poll(now);
  if (over.ok() && *over && channel.state == State::connecting) {
    ISTHMUS_TRY(channel.group->begin(update.vector, update.weight, contributor.thc(), contributor.terms().chunk_elements, random_bytes));
    ISTHMUS_TRY(contributor.begin(channel.group->contribution(), now));
    channel.state = State::summing;
    over = contributor.poll(now);
  }
  if (over.ok() && !*over) return {};
  sent_bytes_ += contributor.result().sent_bytes;
  received_bytes_ += contributor.result().received_bytes;
  if (!over.ok()) return over.status();
  const federated::Contributed& result = contributor.result();
  channel.state = State::over;
  made.counted = result.contributors[member_];
  made.mean.resize(update.vector.size());
  return channel.group->finish(result.weight_sum, made.counted, made.mean);
}

void MemberSums::leave() {
  for (auto& [place, channel] : channels_)
    if (channel.contributor) channel.contributor->leave();
  channels_.clear();
}

}  // namespace isthmus::cli
