// SPDX-License-Identifier: Apache-2.0
// Closed forms from the paths and loads of forms.cc. See formulas.h.
#include "topology/planner/formulas.h"

#include <algorithm>
#include <cmath>

#include "collectives/registry.h"
#include "plan/bounds.h"

namespace isthmus::topology {
namespace {

/// Cells are not cut smaller than this (collectives/phases.h), so that small buffers have few.
constexpr double kLeastCellBytes = 64;
/// Leaders of so many sites talk to each other directly; their messages are counted pair by pair.
constexpr size_t kMostSites = 32;

TimeNs round_ns(double ns) { return static_cast<TimeNs>(std::llround(ns)); }  // profiles and sizes are bounded, so that this fits

TimeNs rate_ns(double bytes, double rate_bytes_per_s) { return rate_bytes_per_s <= 0 ? 0 : round_ns(bytes * 1e9 / rate_bytes_per_s); }

TimeNs wire_ns(const LinkFacts& link, double bytes) {
  return plan::occupancy_ns({.rate_bytes_per_s = static_cast<double>(link.stream_bytes_per_s), .gaps = link.gaps},
                            static_cast<uint64_t>(std::max(bytes, 0.0)));
}

std::vector<std::vector<int32_t>> ranks_by_site(const Layout& layout) {
  std::vector<std::vector<int32_t>> sites(static_cast<size_t>(layout.count(Level::building)));
  for (int32_t rank = 0; rank < layout.ranks(); ++rank)
    sites[static_cast<size_t>(layout.sites()[static_cast<size_t>(rank)])].push_back(rank);
  return sites;
}

std::vector<std::vector<int32_t>> widest_of(const collectives::Tree& tree, int32_t ranks) {
  std::vector<std::vector<int32_t>> sites(static_cast<size_t>(tree.children(tree.top(), 0)));
  for (int32_t number = 0; number < ranks; ++number) {
    const int32_t rank = tree.position_at(number);
    sites[static_cast<size_t>(tree.node(tree.top() - 1, rank))].push_back(rank);
  }
  return sites;
}

LinkFacts ideal_of(const Profile& profile) {
  LinkFacts ideal = profile.links.front();
  ideal.gaps.clear();
  bool limited = true;
  for (const LinkFacts& link : profile.links) {
    if (link.from.empty() != link.to.empty()) continue;  // about a cut only
    ideal.latency_ns = std::min(ideal.latency_ns, link.latency_ns);
    ideal.overhead_ns = std::min(ideal.overhead_ns, link.overhead_ns);
    ideal.stream_bytes_per_s = std::max(ideal.stream_bytes_per_s, link.stream_bytes_per_s);
    limited = limited && link.stream_bytes_per_s != 0 && link.gaps.empty();
  }
  if (!limited) ideal.stream_bytes_per_s = 0;
  return ideal;
}

}  // namespace

Formulas::Formulas(const Scene& scene)
    : scene_(scene),
      ideal_(ideal_of(scene.profile())),
      sites_(ranks_by_site(scene.layout())),
      divisions_(scene.layout().divisions()),
      tree_({.group = {.ranks = {}, .size = scene.ranks()}, .sites = divisions_}),
      widest_(widest_of(tree_, scene.ranks())) {}

const Formulas::Form* Formulas::form_of(const collectives::Choice& choice) const {
  const bool known = choice.algorithm != nullptr && choice.algorithm->needs.coding == plan::Coding::none;
  if (scene_.ranks() < 2 || !known || !suits(*choice.algorithm)) return nullptr;
  const auto [form, is_new] = forms_.try_emplace({choice.algorithm, choice.leaders, choice.across});
  if (is_new) form->second = make_form(choice);
  return &form->second;
}

std::vector<uint32_t> Formulas::leaders(const plan::Algorithm& algorithm) const {
  std::vector<uint32_t> result = {0};
  const auto most = static_cast<uint32_t>(tree_.smallest_site());
  for (uint32_t leaders = 1; leaders < most && collectives::allows_leaders(algorithm, leaders); leaders *= 4) result.push_back(leaders);
  return result;
}

std::vector<plan::Across> Formulas::ways_across(const plan::Algorithm& algorithm) const {
  std::vector<plan::Across> result = {plan::Across::direct};
  if (widest_.size() <= 2) return result;
  for (const plan::Across way : {plan::Across::ring, plan::Across::one_shot, plan::Across::recursive_doubling}) {
    if (collectives::allows_across(algorithm, way)) result.push_back(way);
  }
  return result;
}

bool Formulas::suits(const plan::Algorithm& algorithm) const {
  const bool divided = tree_.top() > 1 && widest_.size() <= kMostSites;
  return serves(algorithm, scene_.ranks()) && (!algorithm.needs.by_site || divided);
}

Formulas::Times Formulas::times(const collectives::Choice& choice, uint64_t bytes) const {
  const Form* found = form_of(choice);
  if (found == nullptr || bytes == 0) return {};
  const Form& form = *found;
  const Collective collective = choice.algorithm->collective;
  const uint64_t blocks = is_by_rank(collective) ? static_cast<uint64_t>(scene_.ranks()) : 1;
  const auto whole = static_cast<double>(elements_of(collective, bytes) * blocks * kElementBytes);
  const double most_cells = form.cells * (form.most_parts > 0 ? 1 : choice.segments);
  const double cells = std::clamp(std::ceil(whole / kLeastCellBytes), 1.0, most_cells);
  // Cells are multiples of the least one, so that some have less than their share; of a small buffer some have nothing.
  const bool uneven = form.cells > 1 && !is_by_rank(collective);
  const double sure = uneven ? std::max(whole - most_cells * kLeastCellBytes, 0.0) : whole;
  Times times;
  times.estimate_ns = std::max(of_bytes(form, whole, cells, most_cells).estimate_ns, physical_bound_ns(collective, bytes));
  if (sure > 0) {
    times.least_ns = of_bytes(form, sure, cells, most_cells).least_ns;
  } else {
    times.least_ns = form.first_cell ? longest_chain_ns(form) : ideal_.latency_ns;
  }
  times.least_ns = std::max(times.least_ns, inbox_ns(form, std::floor(cells / form.cells)));
  return times;
}

// A message leaves when the one that had its slot before is added; some slot has no fewer than its share of them.
TimeNs Formulas::inbox_ns(const Form& form, double segments) {
  const double in_a_row = std::ceil(form.inbox_messages * segments / static_cast<double>(plan::kMaxInboxSlots));
  return round_ns(in_a_row * static_cast<double>(form.inbox_latency_ns));
}

Formulas::Times Formulas::of_bytes(const Form& form, double whole, double cells, double most_cells) const {
  const double segments = std::max(cells / form.cells, 1.0);
  TimeNs longest = 0, slowest_of_longest = 0, bound = 0;
  for (const Path& path : form.paths) {
    TimeNs chain = 0, slowest = 0;
    for (const Hop& hop : path) {
      const double part = whole * hop.share / segments;
      chain += hop_ns(hop, part);
      slowest = std::max({slowest, wire_ns(*hop.link, part), landing_ns(hop, part)});
    }
    bound = std::max(bound, chain + round_ns((segments - 1) * static_cast<double>(slowest)));
    if (chain > longest) slowest_of_longest = slowest;
    longest = std::max(longest, chain);
  }
  const TimeNs busiest = std::max(busiest_pair_ns(form, whole, segments, cells / most_cells), busiest_load_ns(form, whole, segments));
  const TimeNs estimate = longest + std::max<TimeNs>(busiest - slowest_of_longest, 0);
  return {.least_ns = std::max(bound, busiest), .estimate_ns = std::max({bound, busiest, estimate})};
}

TimeNs Formulas::longest_chain_ns(const Form& form) const {
  TimeNs longest = 0;
  for (const Path& path : form.paths) {
    TimeNs chain = 0;
    for (const Hop& hop : path) chain += hop_ns(hop, kElementBytes);
    longest = std::max(longest, chain);
  }
  return longest;
}

uint64_t Formulas::elements_of(Collective collective, uint64_t bytes) const {
  const uint64_t blocks = is_by_rank(collective) ? static_cast<uint64_t>(scene_.ranks()) : 1;
  return std::max<uint64_t>(bytes / kElementBytes / blocks, 1);
}

// `filled`: which share of the cells has elements; the others do not travel.
TimeNs Formulas::busiest_pair_ns(const Form& form, double whole, double segments, double filled) const {
  TimeNs busiest = 0;
  for (const Hop& hop : form.pairs) {
    const double in_a_row = std::floor(form.pair_messages * segments * std::min(filled, 1.0));
    const auto each = static_cast<double>(wire_ns(*hop.link, whole * hop.share / segments));
    busiest = std::max(busiest, round_ns(in_a_row * each) + hop.link->latency_ns);
  }
  return busiest;
}

TimeNs Formulas::busiest_load_ns(const Form& form, double whole, double segments) const {
  TimeNs busiest = 0;
  for (const auto& [id, load] : form.loads) {
    TimeNs through = rate_ns(load.share * whole, load.rate_bytes_per_s) + load.latency_ns;
    for (const Hop& hop : load.around) through += hop_ns(hop, std::floor(whole * hop.share / segments));
    busiest = std::max(busiest, through);
  }
  return busiest;
}

bool Formulas::finest(const collectives::Choice& choice, uint64_t bytes) const {
  const Form* form = form_of(choice);
  if (form != nullptr && form->most_parts > 0) return choice.segments >= form->most_parts;
  return form == nullptr || form->cells * choice.segments * kLeastCellBytes >= static_cast<double>(bytes);
}

TimeNs Formulas::physical_bound_ns(Collective collective, uint64_t bytes) const {
  const Layout& layout = scene_.layout();
  TimeNs bound = 0;
  const auto& sites = sites_;
  const double ranks = layout.ranks();
  for (size_t a = 0; a < sites.size(); ++a) {
    const double inside = static_cast<double>(sites[a].size()) / ranks;
    double leaves = 1;  // allreduce, reduce, broadcast: at least one site's sum, or the data, crosses once
    if (collective == Collective::allgather) leaves = inside;
    if (collective == Collective::reduce_scatter) leaves = 1 - inside;
    if (collective == Collective::alltoall) leaves = inside * (1 - inside) * ranks;  // each rank has a buffer of its own to share out
    const size_t b = (a + 1) % sites.size();
    if (a == b) break;
    if (is_rooted(collective) && a != 0) continue;
    const auto from = is_rooted(collective) && collective == Collective::reduce ? b : a, to = from == a ? b : a;
    const int32_t sender = sites[from].front(), receiver = sites[to].front();
    const LinkFacts& link = scene_.facts(sender, receiver);
    TimeNs through = 0;
    // Of several sites' cuts those between two count for nothing, because what crosses them could have gone elsewhere.
    for (const plan::SharedLink& one : scene_.shared(sender, receiver)) {
      const int32_t index = one.id - 2 * layout.count(Level::host);
      if (index < 0) continue;  // a host's port; there may be many
      const LinkFacts& cut = scene_.profile().links[static_cast<size_t>(index)];
      const bool all_of_it = sites.size() == 2 || (!cut.from.empty() && cut.to.empty());
      if (all_of_it) through = std::max(through, rate_ns(leaves * static_cast<double>(bytes), one.cost.rate_bytes_per_s));
    }
    bound = std::max(bound, link.latency_ns + through);
  }
  if (sites.size() == 1 && ranks > 1) bound = ideal_.latency_ns;
  return bound;
}

TimeNs Formulas::landing_ns(const Hop& hop, double bytes) const {
  const MachineFacts& machine = scene_.profile().machine;
  const TimeNs landed = hop.link->overhead_ns + machine.step_ns;
  return hop.reduces ? landed + rate_ns(bytes, static_cast<double>(machine.reduce_bytes_per_s)) : landed;
}

TimeNs Formulas::hop_ns(const Hop& hop, double bytes) const {
  const TimeNs sent = scene_.profile().machine.step_ns + hop.link->overhead_ns;
  return sent + wire_ns(*hop.link, bytes) + hop.link->latency_ns + landing_ns(hop, bytes);
}

}  // namespace isthmus::topology
