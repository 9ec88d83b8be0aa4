// SPDX-License-Identifier: Apache-2.0
// Making communicators. See setup.h.
#include "comm/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/crypto.h"

namespace isthmus::comm {

namespace {

plan::Reach reach_of(const Membership& membership) {
  const exec::ProcessCard& first = membership.cards.front();
  plan::Reach reach = plan::Reach::process;
  for (const exec::ProcessCard& card : membership.cards) {
    if (card.host != first.host) return plan::Reach::network;
    if (card.process != first.process) reach = plan::Reach::host;
  }
  return reach;
}

std::vector<CpuSet> cpus_of_ranks_on(uint64_t host, const Membership& membership) {
  std::vector<CpuSet> sets;
  for (const exec::ProcessCard& card : membership.cards) {
    if (card.host == host) sets.push_back(card.cpus);
  }
  return sets;
}

/// Whether the user's plan was made for a layout like this communicator's.
bool fits_plan(const Context& context, const Membership& membership) {
  if (context.plan == nullptr || membership.ranks < 2) return false;
  const topology::PlanFile& plan = *context.plan;
  const topology::Layout layout = layout_of(membership);
  if (layout.hash() == plan.layout_hash) return true;
  const Logger& log = context.process.log();
  const std::string what = fmt::format("communicator {:#x} has {}, the plan of ISTHMUS_PLAN_FILE is for {}: not followed", membership.id,
                                       layout.text(), plan.layout);
  // Parts of a job have other layouts, of course.
  membership.ranks == plan.ranks ? log.warn("{}; 'isthmus plan make' makes one", what) : log.info(Subsystem::tuning, "{}", what);
  return false;
}

}  // namespace

topology::Layout layout_of(const Membership& membership) {
  std::vector<topology::Place> places;
  std::vector<int32_t> cpus;
  for (const exec::ProcessCard& card : membership.cards) {
    topology::Place& place = places.emplace_back();
    place = {.host_id = card.host, .hostname = card.hostname, .claims = {}};
    cpus.push_back(std::accumulate(card.cpus.begin(), card.cpus.end(), 0, [](int n, uint64_t word) { return n + std::popcount(word); }));
    using topology::Level;
    for (const auto& [level, name] :
         {std::pair(Level::region, &card.region), std::pair(Level::building, &card.site), std::pair(Level::zone, &card.zone)}) {
      if (name->empty()) continue;
      place.claims.push_back({.level = level, .name = *name, .rung = topology::Rung::setting, .source = "card"});
    }
  }
  topology::Layout layout = topology::layout_of(places);
  topology::set_cpus(layout, cpus);
  return layout;
}

void find_sites(Membership& membership) {
  const topology::Layout layout = layout_of(membership);
  membership.sites = layout.count(topology::Level::building) > 1 ? layout.sites() : std::vector<int32_t>();
  membership.divisions = layout.divisions();
}

void follow_plan(const Context& context, Communicator& communicator, const topology::PlanFile& plan) {
  const Membership& membership = communicator.membership();
  communicator.follow(context.selector.narrow(membership.reach, membership.ranks, membership.divisions, plan.ranges()), to_json(plan));
  context.process.log().info(Subsystem::tuning, "communicator {:#x} follows the plan for {}, profile epoch {}", membership.id, plan.layout,
                             plan.epoch);
}

Result<std::unique_ptr<Communicator>> open_communicator(const Context& context, Membership membership) {
  exec::Process& process = context.process;
  membership.reach = reach_of(membership);
  find_sites(membership);
  ISTHMUS_ASSIGN(Compression compression,
                 Compression::make(process.settings().compression, process.settings().compression_required, process.codecs(),
                                   membership.ranks, membership.name, !membership.sites.empty()));
  std::vector<transport::PeerId> peers;
  std::vector<transport::Transport*> transports;
  for (int32_t rank = 0; rank < membership.ranks; ++rank) {
    auto route = process.route_to(membership.cards[static_cast<size_t>(rank)], membership.id, membership.secret, rank);
    if (!route.ok()) return route.status().with_context(fmt::format("rank {} cannot reach rank {}", membership.rank, rank));
    peers.push_back(route->peer);
    transports.push_back(route->transport);
  }
  process.note_local_ranks(cpus_of_ranks_on(process.identity().host, membership));
  exec::Endpoint& endpoint = process.engine().open(membership.id, membership.rank, peers, transports);
  process.log().info(Subsystem::init, "communicator {:#x} rank {} nranks {} reach {} - Init COMPLETE", membership.id, membership.rank,
                     membership.ranks, plan::name_of(membership.reach));
  const bool planned = fits_plan(context, membership);
  collectives::Choices choices = context.selector.narrow(membership.reach, membership.ranks, membership.divisions);
  auto communicator = std::make_unique<Communicator>(process, std::move(choices), std::move(compression), std::move(membership), endpoint);
  if (planned) follow_plan(context, *communicator, *context.plan);
  return communicator;
}

Result<std::vector<std::unique_ptr<Communicator>>> create_local(const Context& context, const std::vector<int32_t>& devices) {
  Membership membership;
  ISTHMUS_TRY(random_bytes(std::as_writable_bytes(std::span(&membership.id, 1))));
  ISTHMUS_TRY(random_bytes(membership.secret));
  membership.ranks = static_cast<int32_t>(devices.size());
  const exec::ProcessCard self{.process = context.process.identity().process,
                               .host = context.process.identity().host,
                               .hostname = context.process.identity().hostname,
                               .pid = context.process.identity().pid,
                               .region = context.process.identity().region,
                               .site = context.process.identity().site,
                               .zone = context.process.identity().zone,
                               .cpus = context.process.identity().cpu_set};
  membership.cards.assign(devices.size(), self);
  membership.messenger = std::make_shared<LocalFamily>();
  for (int32_t rank = 0; rank < membership.ranks; ++rank) membership.family_ranks.push_back(rank);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    membership.rank = static_cast<int32_t>(rank);
    membership.device = devices[rank];
    ISTHMUS_ASSIGN(auto communicator, open_communicator(context, membership));
    communicators.push_back(std::move(communicator));
  }
  return communicators;
}

}  // namespace isthmus::comm
