// SPDX-License-Identifier: Apache-2.0
// The choice of algorithm: parsing what the user forces, resolving rule tables to algorithms, matching calls. See select.h.
#include "collectives/select.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "collectives/registry.h"
#include "collectives/tree.h"

namespace isthmus::collectives {

std::string_view default_rules() {
  return
#include "collectives/default_rules.inc"
      ;
}

namespace {

bool allows(const plan::Algorithm& algorithm, std::string_view name, uint32_t number) {
  return std::any_of(algorithm.tunables.begin(), algorithm.tunables.end(),
                     [&](const plan::Tunable& tunable) { return tunable.name == name && number >= tunable.min && number <= tunable.max; });
}

}  // namespace

bool allows_segments(const plan::Algorithm& algorithm, uint32_t segments) {
  return segments == 1 || allows(algorithm, "segments", segments);
}

bool allows_leaders(const plan::Algorithm& algorithm, uint32_t leaders) { return leaders == 0 || allows(algorithm, "leaders", leaders); }

bool allows_across(const plan::Algorithm& algorithm, plan::Across across) {
  return across == plan::Across::direct || allows(algorithm, "across", static_cast<uint32_t>(across));
}

namespace {

/// More than this, and everybody with everybody is too many messages.
constexpr int32_t kMostDirect = 32;

bool same(std::span<const int32_t> sites) { return std::adjacent_find(sites.begin(), sites.end(), std::not_equal_to<>()) == sites.end(); }

bool all_differ(std::span<const int32_t> sites) {
  std::vector<int32_t> sorted(sites.begin(), sites.end());
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

/// Whether hierarchies are worth it: some ranks are close to each other, others are not, and there are not too many of either.
bool suits_hierarchies(int32_t ranks, std::span<const int32_t> sites) {
  const Tree tree({.group = {.ranks = {}, .size = ranks}, .sites = sites});
  if (tree.top() < 2) return false;
  for (int32_t level = 1; level <= tree.top(); ++level) {
    for (int32_t position = 0; position < ranks; ++position) {
      if (tree.children(level, tree.node(level, position)) > kMostDirect) return false;
    }
  }
  return true;
}

std::optional<Collective> collective_of(std::string_view name) {
  for (int i = 0; i < kCollectives; ++i) {
    if (name_of(static_cast<Collective>(i)) == name) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

/// "allreduce: ring, direct; broadcast: ...".
std::string all_names() {
  std::string all;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const std::string names = names_of(collective);
    if (!names.empty()) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", name_of(collective), names);
  }
  return all;
}

/// The algorithm, or an error that lists those there are.
Result<const plan::Algorithm*> require(Collective collective, std::string_view name) {
  if (const plan::Algorithm* algorithm = find(collective, name)) return algorithm;
  const std::string names = names_of(collective);
  if (names.empty()) return invalid_argument(fmt::format("{} has no algorithms to choose from", name_of(collective)));
  return invalid_argument(fmt::format("{} has no algorithm \"{}\"; it has {}", name_of(collective), name, names));
}

Status check_tunables(const Choice& choice) {
  const plan::Algorithm& algorithm = *choice.algorithm;
  std::string what;
  if (!allows_across(algorithm, choice.across)) what = fmt::format("across sites by {}", name_of(choice.across));
  if (!allows_leaders(algorithm, choice.leaders)) what = fmt::format("with {} leaders", choice.leaders);
  if (!allows_segments(algorithm, choice.segments)) what = fmt::format("in {} segments", choice.segments);
  if (what.empty()) return {};
  return invalid_argument(fmt::format("{} {} does not run {}; docs/algorithms.md has each algorithm's range", name_of(algorithm.collective),
                                      algorithm.name, what));
}

/// What the user writes: "[collective:]name[/segments[/leaders[/across]]]".
struct Wish {
  std::string_view collective, name;
  std::optional<uint32_t> segments;
  uint32_t leaders = 0;
  plan::Across across = plan::Across::direct;
};

Choice choice_of(const plan::Algorithm& algorithm, const Wish& wish) {
  return {&algorithm, wish.segments.value_or(1), wish.leaders, wish.across};
}

/// Takes what is before the next slash off a word.
std::string_view next_part(std::string_view& word) {
  const std::string_view part = word.substr(0, word.find('/'));
  word.remove_prefix(std::min(part.size() + 1, word.size()));
  return part;
}

Result<Wish> parse_wish(std::string_view word) {
  Wish wish;
  if (const size_t colon = word.find(':'); colon != std::string_view::npos) {
    wish.collective = word.substr(0, colon);
    word.remove_prefix(colon + 1);
  }
  const auto slashes = std::count(word.begin(), word.end(), '/');
  wish.name = next_part(word);
  if (slashes > 0) {
    const auto segments = parse_unsigned(next_part(word), UINT32_MAX);
    if (!segments.ok()) return segments.status().with_context(fmt::format("segments of {}", wish.name));
    wish.segments = static_cast<uint32_t>(*segments);
  }
  if (slashes > 1) {
    const auto leaders = parse_unsigned(next_part(word), UINT32_MAX);
    if (!leaders.ok()) return leaders.status().with_context(fmt::format("leaders of {}", wish.name));
    wish.leaders = static_cast<uint32_t>(*leaders);
  }
  if (slashes > 2) {
    const auto across = plan::parse_across(word);
    if (!across.ok()) return across.status().with_context(wish.name);
    wish.across = *across;
  }
  return wish;
}

}  // namespace

Result<Selector> Selector::make(std::string_view forced, std::string_view rules) {
  Selector selector;
  for (std::string_view word : split(forced, ',')) ISTHMUS_TRY(selector.force(word).with_context("ISTHMUS_ALGO"));
  ISTHMUS_TRY(selector.add_rules(rules, "the user's rules"));
  selector.users_rules_ = selector.rules_.size();
  ISTHMUS_TRY(selector.add_rules(default_rules(), "the built-in rules"));
  return selector;
}

Status Selector::force(std::string_view word) {
  ISTHMUS_ASSIGN(const Wish wish, parse_wish(word));
  const std::optional<Collective> collective = collective_of(wish.collective);
  if (collective) {
    ISTHMUS_ASSIGN(const plan::Algorithm* algorithm, require(*collective, wish.name));
    return check_tunables(forced_[static_cast<size_t>(*collective)] = choice_of(*algorithm, wish));
  }
  if (!wish.collective.empty()) {
    return invalid_argument(fmt::format("there is no collective \"{}\"; there are {}", wish.collective, all_names()));
  }
  bool found = false;
  for (const plan::Algorithm* algorithm : registry()) {
    if (algorithm->name != wish.name) continue;
    const Choice choice = choice_of(*algorithm, wish);
    ISTHMUS_TRY(check_tunables(choice));
    forced_[static_cast<size_t>(algorithm->collective)] = choice;
    found = true;
  }
  if (found) return {};
  return invalid_argument(fmt::format("there is no algorithm \"{}\"; there are {}", wish.name, all_names()));
}

Status Selector::add_rules(std::string_view text, std::string_view origin) {
  auto parsed = plan::parse_rules(text);
  if (!parsed.ok()) return parsed.status().with_context(origin);
  for (plan::Rule& rule : *parsed) {
    const auto algorithm = require(rule.collective, rule.algorithm);
    if (!algorithm.ok()) return algorithm.status().with_context(origin);
    ISTHMUS_TRY(check_tunables({*algorithm, rule.segments, rule.leaders, rule.across}).with_context(origin));
    rules_.push_back({std::move(rule), *algorithm});
  }
  return {};
}

namespace {

/// A hierarchy for calls from so many bytes on, in segments of so many bytes: a power of two of them, so that a range of sizes has one
/// plan. Where allreduce, reduce-scatter and allgather begin is measured with 8 ranks on 2 CPUs, at two sites of 4 hosts (200 Mbit/s
/// between them) and on two hosts (10 Gbit/s); where broadcast and reduce begin is where the built-in rules of many ranks take chains.
/// An all-to-all gains by fewer messages only: with 4 ranks on each of two hosts up to about 256 KiB.
struct Hierarchy {
  Collective collective;
  uint64_t min_bytes;
  uint64_t segment_bytes;
  uint32_t most_segments;
  uint64_t max_bytes = UINT64_MAX;
};
constexpr Hierarchy kHierarchies[] = {
    {Collective::allreduce, 0, 256 << 10, 32},     {Collective::reduce_scatter, 4 << 10, 256 << 10, 32},
    {Collective::allgather, 512, 256 << 10, 32},   {Collective::broadcast, 256 << 10, 16 << 10, 16},
    {Collective::reduce, 256 << 10, 16 << 10, 16}, {Collective::alltoall, 0, 256 << 10, 1, 256 << 10},
};

}  // namespace

Choices Selector::narrow(plan::Reach reach, int32_t ranks, std::span<const int32_t> sites, std::span<const PlannedRange> planned) const {
  Choices choices;
  choices.ranks_ = ranks;
  for (size_t i = 0; i < forced_.size(); ++i) {
    const Choice& forced = forced_[i];
    if (forced.algorithm == nullptr) continue;
    if (serves(*forced.algorithm, ranks)) {
      choices.ranges_[i].push_back({.choice = forced, .origin = Origin::forced});
    } else {
      choices.refused_[i] = forced.algorithm;
    }
  }
  Origin origin = Origin::users_rules;
  const auto add = [&](const ResolvedRule& resolved) {
    const auto& [rule, algorithm] = resolved;
    const bool matches = rule.reach == reach && ranks >= rule.min_ranks && ranks <= rule.max_ranks && serves(*algorithm, ranks);
    if (!matches) return;
    choices.ranges_[static_cast<size_t>(rule.collective)].push_back(
        {{algorithm, rule.segments, rule.leaders, rule.across}, origin, rule.min_bytes, rule.max_bytes});
  };
  const auto built_in = rules_.begin() + static_cast<std::ptrdiff_t>(users_rules_);
  std::for_each(rules_.begin(), built_in, add);
  for (const PlannedRange& one : planned) {
    if (!serves(*one.choice.algorithm, ranks)) continue;
    choices.ranges_[static_cast<size_t>(one.collective)].push_back({one.choice, Origin::planned, one.min_bytes, one.max_bytes});
  }
  if (suits_hierarchies(ranks, sites)) choices.add_hierarchies();
  origin = Origin::built_in;
  std::for_each(built_in, rules_.end(), add);
  return choices;
}

void Choices::add_hierarchies() {
  for (const Hierarchy& each : kHierarchies) {
    const plan::Algorithm* algorithm = find(each.collective, "hierarchy");
    uint64_t begin = each.min_bytes;
    for (uint32_t segments = 1; segments < each.most_segments; segments *= 2) {
      const uint64_t end = each.segment_bytes * segments;
      if (end < begin) continue;
      ranges_[static_cast<size_t>(each.collective)].push_back({{algorithm, segments}, Origin::sites, begin, end});
      begin = end + 1;
    }
    ranges_[static_cast<size_t>(each.collective)].push_back({{algorithm, each.most_segments}, Origin::sites, begin, each.max_bytes});
  }
}

std::string_view name_of(Origin origin) {
  constexpr std::array<std::string_view, 5> kNames = {"ISTHMUS_ALGO", "ISTHMUS_RULES_FILE", "the plan", "its sites", "the built-in rules"};
  return kNames[static_cast<size_t>(origin)];
}

Result<Choice> Choices::choose(Collective collective, uint64_t bytes) const {
  ISTHMUS_ASSIGN(const Decision decision, decide(collective, bytes));
  return decision.choice;
}

Result<Decision> Choices::decide(Collective collective, uint64_t bytes) const {
  const auto at = static_cast<size_t>(collective);
  if (refused_[at] != nullptr) {
    return invalid_argument(fmt::format("{} {} was asked for but does not serve {} ranks; these do: {}", name_of(collective),
                                        refused_[at]->name, ranks_, names_of(collective, ranks_)));
  }
  for (const Decision& range : ranges_[at]) {
    if (bytes >= range.min_bytes && bytes <= range.max_bytes) return range;
  }
  return internal_error(fmt::format("no rule covers {} of {} bytes over {} ranks", name_of(collective), bytes, ranks_));
}

// --- calls with a codec ------------------------------------------------------------------------------------------------------

namespace {

/// Cells small enough that several fit into caches, and large enough that messages are not many. The engine works on one at a stretch.
constexpr uint64_t kCellElements = 64 * 1024;
/// Plans grow with their cells.
constexpr uint64_t kMostCells = 1024;

/// A power of two, so that a range of sizes has one plan.
uint32_t segments_for(const plan::Algorithm& algorithm, uint64_t ranks, uint64_t elements) {
  if (algorithm.tunables.empty()) return 1;
  const uint64_t wanted = std::bit_ceil((elements / ranks + kCellElements - 1) / kCellElements);
  const uint64_t most = std::min<uint64_t>(algorithm.tunables[0].max, std::bit_floor(kMostCells / ranks));
  return static_cast<uint32_t>(std::max<uint64_t>(std::min(wanted, most), 1));
}

/// What is best where the user says nothing.
std::string_view usual_name(Collective collective, const codec::Codec& codec, int32_t ranks, std::span<const int32_t> sites) {
  if (!codec.homomorphic) return collective == Collective::allreduce ? "two_shot" : "one_shot";
  if (!same(sites) && !all_differ(sites)) return "hierarchy";
  return ranks <= kMostDirect ? "direct" : "halving";
}

/// What forced words say about a collective.
struct Forced {
  const plan::Algorithm* algorithm = nullptr;
  std::optional<uint32_t> segments;
  std::string_view missed;  ///< a name that was meant for the collective, too, which has no such algorithm
};

Status apply(const Wish& wish, Collective collective, const codec::Codec& codec, Forced& forced) {
  bool known = false, found = false;
  for (const plan::Algorithm* algorithm : compressed_registry()) {
    const bool other = !wish.collective.empty() && name_of(algorithm->collective) != wish.collective;
    if (algorithm->name != wish.name || other) continue;
    known = true;
    ISTHMUS_TRY(check_tunables(choice_of(*algorithm, wish)));
    if (algorithm->collective != collective) continue;
    found = true;
    forced.algorithm = algorithm;
    forced.segments = wish.segments;
  }
  if (!known) {
    return invalid_argument(fmt::format("no compressed algorithm is called \"{}\"; for codec {}, {} has {}", wish.name, codec.name,
                                        name_of(collective), compressed_names_of(collective, codec)));
  }
  if (!found && wish.collective.empty()) forced.missed = wish.name;
  return {};
}

}  // namespace

Result<Choice> choose_compressed(Collective collective, const codec::Codec& codec, int32_t ranks, std::span<const int32_t> sites,
                                 uint64_t elements, std::string_view forced) {
  const std::string names = compressed_names_of(collective, codec);
  if (names.empty()) {
    return invalid_argument(fmt::format("{} cannot be carried out with codec {}", name_of(collective), codec.name));
  }
  Forced wishes;
  for (const std::string_view word : split(forced, ',')) {
    ISTHMUS_ASSIGN(const Wish wish, parse_wish(word));
    ISTHMUS_TRY(apply(wish, collective, codec, wishes));
  }
  if (wishes.algorithm == nullptr && !wishes.missed.empty()) {
    return invalid_argument(
        fmt::format("{} has no compressed algorithm {}; with codec {} it has {}", name_of(collective), wishes.missed, codec.name, names));
  }
  const plan::Algorithm* algorithm =
      wishes.algorithm != nullptr ? wishes.algorithm : find_compressed(collective, usual_name(collective, codec, ranks, sites));
  if (!codes_with(*algorithm, codec)) {
    return invalid_argument(
        fmt::format("{} {} has no use for codec {}; these have: {}", name_of(collective), algorithm->name, codec.name, names));
  }
  return Choice{algorithm, wishes.segments.value_or(segments_for(*algorithm, static_cast<uint64_t>(ranks), elements))};
}

}  // namespace isthmus::collectives
