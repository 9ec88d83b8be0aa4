// SPDX-License-Identifier: Apache-2.0
// Which messages algorithms send, in closed form: paths of messages that wait for each other, and loads of shared links. See formulas.h.
#include <algorithm>
#include <bit>
#include <set>

#include "collectives/phases.h"
#include "collectives/sites.h"
#include "topology/planner/formulas.h"

namespace isthmus::topology {
namespace {

/// So many ranks' paths are looked at in large jobs.
constexpr int32_t kSampledRanks = 64;
/// Messages of everybody to everybody are counted one by one up to so many ranks.
constexpr int32_t kMostPairedRanks = 128;
bool sampled(int32_t rank, int32_t ranks) { return rank % std::max(1, ranks / kSampledRanks) == 0; }

}  // namespace

Formulas::Form Formulas::make_form(const collectives::Choice& choice) const {
  Form form;
  const Collective collective = choice.algorithm->collective;
  const bool reduces = is_reducing(collective);
  const bool gathers = collective == Collective::allreduce || collective == Collective::allgather;
  const std::string_view name = choice.algorithm->name;
  if (name == "hierarchy") {
    if (collective == Collective::alltoall) {
      describe_exchange(form);
    } else {
      is_rooted(collective) ? describe_chain(form, true, reduces) : describe_hierarchy(form, choice);
    }
  } else if (name == "ring") {
    describe_ring(form, reduces, gathers);
  } else if (name == "direct") {
    describe_direct(form, reduces, gathers);
  } else if (name == "halving_doubling" || name == "halving" || name == "doubling") {
    describe_halving(form, reduces, gathers);
  } else if (name == "recursive_doubling") {
    describe_doubling(form);
  } else if (name == "one_shot") {
    describe_one_shot(form);
  } else if (name == "chain") {
    describe_chain(form, false, reduces);
  } else if (name == "binomial") {
    describe_tree(form, reduces);
  }
  return form;
}

// The sum of a share goes around once but for one link, and so does the result.
void Formulas::describe_ring(Form& form, bool reduces, bool gathers) const {
  const int32_t ranks = scene_.ranks();
  const double share = 1.0 / ranks;
  form.cells = ranks;
  form.pair_messages = (reduces && gathers ? 2 : 1) * (ranks - 1);
  std::set<const LinkFacts*> kinds;
  const auto next = [&](int32_t rank) { return (rank + 1) % ranks; };
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const LinkFacts* link = &scene_.facts(rank, next(rank));
    if (kinds.insert(link).second) form.pairs.push_back({.link = link, .share = share, .reduces = false});
    add_load(form.loads, rank, next(rank), form.pair_messages * share);
  }
  Path path;  // of share 0, which has elements whenever there are any
  if (reduces) {
    for (int32_t at = 0; at + 1 < ranks; ++at) {
      const int32_t from = (1 + at) % ranks;
      path.push_back({.link = &scene_.facts(from, next(from)), .share = share, .reduces = true});
    }
  }
  if (gathers) {
    for (int32_t from = 0; from + 1 < ranks; ++from) {
      path.push_back({.link = &scene_.facts(from, next(from)), .share = share, .reduces = false});
    }
  }
  form.paths.push_back(std::move(path));
}

// A path goes where the data goes: what a rank hands to its partner waits for what it got from the one before.
void Formulas::describe_halving(Form& form, bool reduces, bool gathers) const {
  const int32_t ranks = scene_.ranks();
  const auto pairing = reduces && gathers ? collectives::Pairing::near : collectives::Pairing::far;
  form.cells = ranks;
  form.first_cell = false;
  std::vector<collectives::Halvings> all;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    all.push_back(collectives::halvings({.ranks = {}, .size = ranks, .position = rank}, pairing));
    for (const collectives::Halving& step : all.back().steps) {
      const int32_t partner = step.partner >= 0 ? step.partner : step.helper;
      if (reduces) add_load(form.loads, rank, partner, share_of(step.theirs_begin, step.theirs_end));
      if (gathers && step.partner >= 0) add_load(form.loads, rank, partner, share_of(step.mine_begin, step.mine_end));
    }
  }
  for (int32_t rank = 0; rank < ranks; ++rank) {
    if (!sampled(rank, ranks)) continue;
    Path path;
    int32_t at = rank;
    size_t depth = 0;
    const auto steps = [&]() -> const std::vector<collectives::Halving>& { return all[static_cast<size_t>(at)].steps; };
    for (; depth < steps().size(); ++depth) {
      const collectives::Halving& step = steps()[depth];
      const int32_t to = step.partner >= 0 ? step.partner : step.helper;
      if (reduces) path.push_back({.link = &scene_.facts(at, to), .share = share_of(step.theirs_begin, step.theirs_end), .reduces = true});
      at = to;
    }
    for (size_t left = steps().size(); gathers && left > 0; --left) {
      if (left > steps().size()) continue;
      const collectives::Halving& step = steps()[left - 1];
      if (step.partner < 0) continue;
      path.push_back({.link = &scene_.facts(at, step.partner), .share = share_of(step.mine_begin, step.mine_end), .reduces = false});
      at = step.partner;
    }
    form.paths.push_back(std::move(path));
  }
}

double Formulas::share_of(int32_t begin, int32_t end) const { return static_cast<double>(end - begin) / scene_.ranks(); }

void Formulas::describe_direct(Form& form, bool reduces, bool gathers) const {
  const int32_t ranks = scene_.ranks();
  if (ranks > kMostPairedRanks) return describe_large_exchange(form);
  const double share = 1.0 / ranks;
  form.cells = ranks;
  form.pair_messages = 1;
  std::set<const LinkFacts*> kinds;
  for (int32_t from = 0; from < ranks; ++from) {
    for (int32_t to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const LinkFacts* link = &scene_.facts(from, to);
      if (kinds.insert(link).second) form.pairs.push_back({.link = link, .share = share, .reduces = false});
      add_load(form.loads, from, to, (reduces && gathers ? 2 : 1) * share);
    }
  }
  const LinkFacts* link = &scene_.facts(ranks - 1, 0);  // share 0 has elements whenever there are any
  if (reduces) form.paths.push_back({{.link = link, .share = share, .reduces = true}});
  const LinkFacts* back = &scene_.facts(0, ranks - 1);
  if (!reduces) form.paths.push_back({{.link = back, .share = share, .reduces = false}});
  if (reduces && gathers) form.paths[0].push_back({.link = back, .share = share, .reduces = false});
}

// All-to-all of many ranks, which the direct algorithm serves, too: the ways of one rank's messages, and what leaves whole buildings.
void Formulas::describe_large_exchange(Form& form) const {
  const int32_t ranks = scene_.ranks();
  form.cells = ranks;
  form.pair_messages = 1;
  std::set<const LinkFacts*> kinds;
  for (int32_t to = 1; to < ranks; ++to) {
    const Hop hop = {.link = &scene_.facts(0, to), .share = 1.0 / ranks, .reduces = false};
    if (kinds.insert(hop.link).second) form.pairs.push_back(hop);
  }
  form.paths.push_back({form.pairs.back()});
  for (const auto& from : sites_) {
    for (const auto& to : sites_) {
      if (&from == &to) continue;
      add_crossing(form.loads, from.front(), to.front(), static_cast<double>(from.size() * to.size()) / ranks, {});
    }
  }
}

// A path goes where the data goes. With a rank count that is no power of two, some hand their part to a neighbour first, and are told.
void Formulas::describe_doubling(Form& form) const {
  const int32_t ranks = scene_.ranks();
  const auto staying = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(ranks)));
  const int32_t folded = ranks - staying;
  const auto at = [&](int32_t number) { return number < folded ? 2 * number : number + folded; };
  for (int32_t first = 0; first < staying; ++first) {
    Path path;
    int32_t number = first;
    if (number < folded) {
      path.push_back({.link = &scene_.facts(at(number) + 1, at(number)), .share = 1, .reduces = true});
      add_load(form.loads, at(number) + 1, at(number), 1);
      add_load(form.loads, at(number), at(number) + 1, 1);
    }
    for (int32_t distance = 1; distance < staying; distance *= 2) {
      const int32_t partner = number ^ distance;
      path.push_back({.link = &scene_.facts(at(number), at(partner)), .share = 1, .reduces = true});
      add_load(form.loads, at(first), at(first ^ distance), 1);
      number = partner;
    }
    if (number < folded) path.push_back({.link = &scene_.facts(at(number), at(number) + 1), .share = 1, .reduces = false});
    if (sampled(first, staying)) form.paths.push_back(std::move(path));
  }
}

// Everybody gets everybody's buffer.
void Formulas::describe_one_shot(Form& form) const {
  const int32_t ranks = scene_.ranks();
  form.pair_messages = 1;
  std::set<const LinkFacts*> kinds;
  for (int32_t from = 0; from < ranks; ++from) {
    for (int32_t to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const Hop hop = {.link = &scene_.facts(from, to), .share = 1, .reduces = true};
      add_load(form.loads, from, to, 1);
      if (kinds.insert(hop.link).second) form.paths.push_back({hop});
    }
  }
}

// Number n of the tree, counted from the root, hears from n less its lowest bit; sums go the other way.
void Formulas::describe_tree(Form& form, bool reduces) const {
  const int32_t ranks = scene_.ranks();
  for (int32_t leaf = 1; leaf < ranks; ++leaf) {
    Path path;
    for (int32_t rank = leaf; rank != 0; rank &= rank - 1) {
      const int32_t parent = rank & (rank - 1), from = reduces ? rank : parent, to = reduces ? parent : rank;
      path.push_back({.link = &scene_.facts(from, to), .share = 1, .reduces = reduces});
      if (rank == leaf) add_load(form.loads, from, to, 1);
    }
    if (!reduces) std::reverse(path.begin(), path.end());
    const bool longest = leaf == ranks - 1 || ((leaf + 1) & leaf) == 0;
    if (longest || sampled(leaf, ranks)) form.paths.push_back(std::move(path));
  }
}

// From the root through all others, and its segments behind each other.
void Formulas::describe_chain(Form& form, bool by_site, bool reduces) const {
  std::vector<int32_t> order;
  if (by_site) {
    for (const auto& site : widest_) order.insert(order.end(), site.begin(), site.end());
  } else {
    for (int32_t rank = 0; rank < scene_.ranks(); ++rank) order.push_back(rank);
  }
  Path path;
  for (size_t at = 0; at + 1 < order.size(); ++at) {
    const LinkFacts* link = reduces ? &scene_.facts(order[at + 1], order[at]) : &scene_.facts(order[at], order[at + 1]);
    path.push_back({.link = link, .share = 1, .reduces = reduces});
    reduces ? add_load(form.loads, order[at + 1], order[at], 1) : add_load(form.loads, order[at], order[at + 1], 1);
  }
  form.paths.push_back(std::move(path));
}

// All-to-all: what a site has for a rank of another is gathered, one block of each, and crosses; all that crosses a link is one load.
void Formulas::describe_exchange(Form& form) const {
  const double ranks = scene_.ranks();
  form.cells = ranks;
  for (const auto& from : widest_) {
    for (const auto& to : widest_) {
      if (&from == &to) continue;
      const int32_t sender = from.front(), receiver = to.front();
      const auto members = static_cast<double>(from.size());
      Path path;
      if (from.size() > 1) path.push_back({.link = &scene_.facts(from.back(), sender), .share = 1 / ranks, .reduces = false});
      path.push_back({.link = &scene_.facts(sender, receiver), .share = members / ranks, .reduces = false});
      form.paths.push_back(std::move(path));
      form.most_parts = std::max(form.most_parts, static_cast<uint32_t>(from.size()));
      add_crossing(form.loads, sender, receiver, members * static_cast<double>(to.size()) / ranks, {});
    }
  }
}

// What goes from site to site, through cuts; the ports of hosts are many. Where the widest sites are not the buildings, each has several
// ways out, and what goes through one of them is not known.
void Formulas::add_crossing(Loads& loads, int32_t from, int32_t to, double share, const Path& around) const {
  if (sites_.size() != widest_.size()) return;
  for (const plan::SharedLink& one : scene_.shared(from, to)) {
    if (one.id < 2 * scene_.layout().count(Level::host)) continue;
    Load& load = loads[one.id];
    if (load.share == 0) load.around = around;
    add_share(load, one, from, to, share);
  }
}

void Formulas::add_load(Loads& loads, int32_t from, int32_t to, double share) const {
  for (const plan::SharedLink& one : scene_.shared(from, to)) add_share(loads[one.id], one, from, to, share);
}

void Formulas::add_share(Load& load, const plan::SharedLink& through, int32_t from, int32_t to, double share) const {
  load.share += share;
  load.rate_bytes_per_s = through.cost.rate_bytes_per_s;
  load.latency_ns = std::min(load.latency_ns, scene_.facts(from, to).latency_ns);
}

}  // namespace isthmus::topology
