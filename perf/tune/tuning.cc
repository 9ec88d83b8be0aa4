// SPDX-License-Identifier: Apache-2.0
// Pricing of candidates and making of rules. See tuning.h.
#include "perf/tune/tuning.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/registry.h"
#include "plan/builder.h"

namespace isthmus::tune {

namespace {

using collectives::Choice;
using plan::Algorithm;
using plan::Plan;

/// Rules hold up to a size; the last size of the grid stands for all beyond.
struct Range {
  uint64_t max_bytes;
  Choice choice;
  friend bool operator==(const Range&, const Range&) = default;
};
using Ranges = std::vector<Range>;

constexpr double kCloseEnough = 1.05;

/// Plans of all ranks; built once and priced at every size.
Result<std::vector<Plan>> build_world(const Choice& choice, int32_t ranks) {
  const Collective collective = choice.algorithm->collective;
  plan::Shape shape = {
      .collective = collective, .group = {.ranks = {}, .size = ranks}, .root = is_rooted(collective) ? 0 : -1, .segments = choice.segments};
  std::vector<Plan> world;
  for (; shape.group.position < ranks; ++shape.group.position) {
    ISTHMUS_ASSIGN(world.emplace_back(), plan::build(*choice.algorithm, shape));
  }
  return world;
}

/// The id of what a message goes through; -1: nothing.
int32_t port_of(Port port, int32_t ranks, int from, int to) {
  const int site = 2 * from >= ranks, other = 2 * to >= ranks;
  switch (port) {
    case Port::sender:
      return from;
    case Port::receiver:
      return to;
    case Port::shared:
      return 0;
    case Port::line:
      break;
  }
  return site == other ? -1 : site;
}

plan::CostModel model_of(const Machine& machine, int32_t ranks) {
  std::vector<plan::SharedLink> ports;
  ports.reserve(static_cast<size_t>(ranks));
  for (int32_t id = 0; id < ranks; ++id) ports.push_back({.id = id, .cost = machine.port_cost});
  const auto shared = [port = machine.port, ranks, ports = std::move(ports)](int from, int to) {
    const int32_t id = port_of(port, ranks, from, to);
    return id < 0 ? std::span<const plan::SharedLink>() : std::span(ports).subspan(static_cast<size_t>(id), 1);
  };
  return {.link = [link = machine.link](int, int) { return link; },
          .reduce_bytes_per_s = machine.reduce_rate_bytes_per_s,
          .copy_bytes_per_s = machine.copy_rate_bytes_per_s,
          .step_ns = machine.step_ns,
          .shared = shared};
}

/// All numbers of segments that are tried on some machine.
std::set<uint32_t> segments_of(const Table& table) {
  std::set<uint32_t> all;
  for (const Machine& machine : table.machines) all.insert(machine.segments.begin(), machine.segments.end());
  return all;
}

/// What may be chosen for `ranks` ranks and, as the last of the grid, for all beyond.
std::vector<Choice> candidates(const Table& table, Collective collective, int32_t ranks) {
  const int32_t most_ranks = ranks == table.ranks.back() ? INT32_MAX : ranks;
  std::vector<Choice> result;
  for (const Algorithm* algorithm : collectives::registry()) {
    if (algorithm->needs.by_site) continue;  // chosen by sites, not by rules
    if (algorithm->collective != collective || !serves(*algorithm, ranks) || !serves(*algorithm, most_ranks)) continue;
    for (uint32_t segments : segments_of(table)) {
      if (collectives::allows_segments(*algorithm, segments)) result.push_back({algorithm, segments});
    }
  }
  return result;
}

uint64_t elements_of(const Point& point) {
  constexpr size_t kElementBytes = size_of(DataType::float32);
  return point.bytes / kElementBytes / static_cast<uint64_t>(is_by_rank(point.collective) ? point.ranks : 1);
}

/// A barrier has one size.
std::vector<uint64_t> sizes_of(const Table& table, Collective collective) {
  return collective == Collective::barrier ? std::vector<uint64_t>{size_of(DataType::float32)} : table.bytes;
}

using Timings = std::map<Point, std::vector<Timing>>;

/// Prices one choice at every size, on every machine where it is tried.
Status price(const Table& table, const Choice& choice, int32_t ranks, Timings& timings) {
  ISTHMUS_ASSIGN(const std::vector<Plan> world, build_world(choice, ranks));
  for (const Machine& machine : table.machines) {
    if (std::count(machine.segments.begin(), machine.segments.end(), choice.segments) == 0) continue;
    const plan::CostModel model = model_of(machine, ranks);
    for (uint64_t bytes : sizes_of(table, choice.algorithm->collective)) {
      const Point point = {choice.algorithm->collective, machine.reach, ranks, bytes};
      ISTHMUS_ASSIGN(const plan::Cost cost, plan::cost(world, elements_of(point), size_of(DataType::float32), model));
      timings[point].push_back({choice, cost.total_ns});
    }
  }
  return {};
}

Result<Timings> price_grid(const Table& table, Collective collective) {
  Timings timings;
  for (int32_t ranks : table.ranks) {
    for (const Choice& choice : candidates(table, collective, ranks)) ISTHMUS_TRY(price(table, choice, ranks, timings));
  }
  for (auto& [point, of_point] : timings) {
    if (const auto measured = table.measured.find(point); measured != table.measured.end()) of_point = measured->second;
  }
  return timings;
}

/// The quickest; `before` or else the first listed where they are nearly as quick.
Choice quickest(const std::vector<Timing>& timings, const Choice& before) {
  TimeNs least_ns = kNever;
  for (const Timing& timing : timings) least_ns = std::min(least_ns, timing.time_ns);
  const auto close = [&](const Timing& timing) {
    return static_cast<double>(timing.time_ns) <= kCloseEnough * static_cast<double>(least_ns);
  };
  for (const Timing& timing : timings) {
    if (timing.choice == before && close(timing)) return timing.choice;
  }
  return std::find_if(timings.begin(), timings.end(), close)->choice;
}

Ranges ranges_of(const Table& table, const Timings& timings, Point point) {
  Ranges ranges;
  const std::vector<uint64_t> sizes = sizes_of(table, point.collective);
  for (uint64_t bytes : sizes) {
    point.bytes = bytes;
    const Choice before = ranges.empty() ? Choice() : ranges.back().choice;
    const Choice choice = quickest(timings.at(point), before);
    if (choice != before) ranges.push_back({0, choice});
    ranges.back().max_bytes = bytes == sizes.back() ? UINT64_MAX : bytes;
  }
  return ranges;
}

void add_rules(plan::RuleTable& rules, const Point& point, int32_t min_ranks, int32_t max_ranks, const Ranges& ranges) {
  uint64_t min_bytes = 0;
  for (const Range& range : ranges) {
    rules.push_back({.collective = point.collective,
                     .reach = point.reach,
                     .min_ranks = min_ranks,
                     .max_ranks = max_ranks,
                     .min_bytes = min_bytes,
                     .max_bytes = range.max_bytes,
                     .algorithm = std::string(range.choice.algorithm->name),
                     .segments = range.choice.segments});
    min_bytes = range.max_bytes + 1;
  }
}

/// Rules of one collective over one machine; neighbouring rank counts that want the same share theirs.
void add_rules(plan::RuleTable& rules, const Table& table, const Timings& timings, Point point) {
  int32_t min_ranks = 1, max_ranks = 0;
  Ranges shared;
  for (int32_t ranks : table.ranks) {
    point.ranks = ranks;
    Ranges ranges = ranges_of(table, timings, point);
    if (!shared.empty() && ranges != shared) {
      add_rules(rules, point, min_ranks, max_ranks, shared);
      min_ranks = max_ranks + 1;
    }
    shared = std::move(ranges);
    max_ranks = ranks;
  }
  add_rules(rules, point, min_ranks, INT32_MAX, shared);
}

}  // namespace

Result<plan::RuleTable> make_rules(const Table& table) {
  plan::RuleTable rules;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::sendrecv) continue;
    ISTHMUS_ASSIGN(const Timings timings, price_grid(table, collective));
    for (const Machine& machine : table.machines) add_rules(rules, table, timings, {.collective = collective, .reach = machine.reach});
  }
  return rules;
}

std::string to_include_file(const plan::RuleTable& rules) {
  return fmt::format(
      "// SPDX-License-Identifier: Apache-2.0\n"
      "// The built-in rule table, a string literal that select.cc includes. Written by perf/tune from perf/tune/table.json; a test "
      "compares\n"
      "// the two. Of the rules that match a call the first wins.\n"
      "R\"rules(\n{})rules\"\n",
      plan::to_text(rules));
}

}  // namespace isthmus::tune
