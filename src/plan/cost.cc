// SPDX-License-Identifier: Apache-2.0
// The cost walk: drives the abstract machine in virtual time. Called by the planner, perf and the isthmus tool; fails only on plans
// that are malformed or stall.
#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>
#include <utility>

#include "plan/form.h"
#include "plan/walk.h"

namespace isthmus::plan {

namespace {

TimeNs transfer_ns(uint64_t bytes, double rate_bytes_per_s) {
  if (rate_bytes_per_s <= 0) return 0;
  return static_cast<TimeNs>(std::llround(static_cast<double>(bytes) * 1e9 / rate_bytes_per_s));
}

/// On the line through two knots, or through the first and the origin.
TimeNs on_line(const Knot& from, const Knot& to, uint64_t bytes) {
  const double slope = static_cast<double>(to.gap_ns - from.gap_ns) / static_cast<double>(to.bytes - from.bytes);
  const double gap_ns = static_cast<double>(from.gap_ns) + slope * (static_cast<double>(bytes) - static_cast<double>(from.bytes));
  return static_cast<TimeNs>(std::llround(std::max(gap_ns, 0.0)));
}

/// A CPU: whoever asks first is served first.
struct Cpu {
  TimeNs free_ns = 0;
};

/// A link. Messages take all that they go through at once, or wait: nobody keeps a link that waits for another one.
struct Link {
  TimeNs free_ns = 0;
  std::deque<Walk::At> waiting;  ///< sends, in the order in which they came
};

class CostWalk {
 public:
  CostWalk(Walk walk, const CostModel& model, size_t element_size, const CostOptions& options)
      : walk_(std::move(walk)), model_(model), element_size_(element_size), with_times_(options.with_times), limit_ns_(options.limit_ns) {
    cpus_.resize(walk_.world().size());
    links_.resize(walk_.pairs());
    routes_.resize(walk_.pairs());
    depth_.resize(walk_.steps(), 0);
    cost_.sent_bytes.resize(walk_.world().size(), 0);
    cost_.sent_messages.resize(walk_.world().size(), 0);
  }

  Result<Cost> run() {
    begin_enabled();
    while (!queue_.empty()) {
      const Happening next = queue_.top();
      queue_.pop();
      now_ = next.time_ns;
      if (now_ > limit_ns_) return given_up();
      happen(next);
      begin_enabled();
    }
    if (!walk_.done()) return internal_error("the plans wait for each other:" + walk_.describe_stall());
    cost_.total_ns = now_;
    return std::move(cost_);
  }

 private:
  Cost given_up() {
    cost_.total_ns = now_;
    cost_.given_up = true;
    return std::move(cost_);
  }

  enum class What : uint8_t { computed, posted, left, arrived, landed, freed };
  struct Happening {
    TimeNs time_ns;
    uint64_t sequence : 56;  ///< ties happen in the order in which they were foreseen
    What what : 8;
    Walk::At at;                                    ///< freed: the link's number is at.step
    bool operator<(const Happening& other) const {  // std::priority_queue puts the greatest first
      return time_ns != other.time_ns ? time_ns > other.time_ns : sequence > other.sequence;
    }
  };

  void foresee(TimeNs time_ns, What what, Walk::At at) { queue_.push({time_ns, sequence_++, what, at}); }

  void begin_enabled() {
    auto& enabled = walk_.enabled();
    for (const Walk::Event& event : enabled) event.is_move ? begin_transfer(event.at) : begin_compute(event.at);
    enabled.clear();
  }

  void happen(const Happening& next) {
    switch (next.what) {
      case What::computed:
        walk_.computed(next.at);
        return deepen_successors(next.at);
      case What::posted:
        return pass(next.at);
      case What::freed:
        return admit(links_[next.at.step]);
      case What::left:
        walk_.left(next.at);
        return deepen_successors(next.at);
      case What::arrived:
        return begin_landing(next.at);
      case What::landed:
        return land(next.at);
    }
  }

  void begin_compute(Walk::At at) {
    const auto [begin, end] = compute(at.plan, now_, model_.step_ns + compute_ns(at));
    note(at, begin, end);
    foresee(end, What::computed, at);
  }

  void begin_transfer(Walk::At send) {
    const Route& route = route_of(send);
    const auto [begin, ready] = compute(send.plan, now_, model_.step_ns + route.link.overhead_ns);
    cost_.sent_bytes[send.plan] += bytes_of(send);
    ++cost_.sent_messages[send.plan];
    if (with_times_) begins_.resize(walk_.steps());
    if (with_times_) begins_[walk_.number(send)] = begin;
    foresee(ready, What::posted, send);
  }

  /// What messages of a pair cost and go through.
  struct Route {
    bool known = false;
    LinkCost link;
    std::vector<std::pair<size_t, LinkCost>> shared;  ///< by index into links_
  };

  const Route& route_of(Walk::At send) {
    Route& route = routes_[walk_.pair(send)];
    if (route.known) return route;
    const int from = walk_.world()[send.plan].rank, to = walk_.world()[walk_.partner(send).plan].rank;
    route.known = true;
    if (model_.link) route.link = model_.link(from, to);
    const std::span<const SharedLink> shared = model_.shared ? model_.shared(from, to) : std::span<const SharedLink>();
    for (const SharedLink& one : shared) {
      const size_t at = walk_.pairs() + static_cast<size_t>(one.id);
      if (at >= links_.size()) links_.resize(at + 1);
      route.shared.emplace_back(at, one.cost);
    }
    return route;
  }

  /// Puts a message on its pair's link, and at the same time on all that it shares with other pairs, if all are free; else it waits at
  /// the first that is not.
  void pass(Walk::At send) {
    const size_t pair = walk_.pair(send);
    const Route& route = routes_[pair];
    if (waits_at(pair, send)) return;
    for (const auto& [at, cost] : route.shared) {
      if (waits_at(at, send)) return;
    }
    const uint64_t bytes = bytes_of(send);
    TimeNs left = now_, latency_ns = route.link.latency_ns;
    occupy(pair, occupancy_ns(route.link, bytes), left);
    for (const auto& [at, cost] : route.shared) {
      occupy(at, cost.overhead_ns + occupancy_ns(cost, bytes), left);
      latency_ns += cost.latency_ns;
    }
    if (with_times_) note(send, begins_[walk_.number(send)], left);
    foresee(left, What::left, send);
    foresee(left + latency_ns, What::arrived, send);
  }

  bool waits_at(size_t at, Walk::At send) {
    Link& link = links_[at];
    if (link.free_ns <= now_) return false;
    link.waiting.push_back(send);
    if (link.waiting.size() == 1) foresee(link.free_ns, What::freed, {0, static_cast<uint32_t>(at)});
    return true;
  }

  void occupy(size_t at, TimeNs duration, TimeNs& left) {
    Link& link = links_[at];
    link.free_ns = now_ + duration;
    left = std::max(left, link.free_ns);
    // Whoever waited here, and was not the one to be admitted, goes on waiting.
    if (!link.waiting.empty() && duration > 0) foresee(link.free_ns, What::freed, {0, static_cast<uint32_t>(at)});
  }

  /// Those who wait at a link take their turns until it is in use again.
  void admit(Link& link) {
    while (!link.waiting.empty() && link.free_ns <= now_) {
      const Walk::At send = link.waiting.front();
      link.waiting.pop_front();
      pass(send);
    }
  }

  void begin_landing(Walk::At send) {
    const Walk::At receiver = walk_.partner(send);
    const bool applies_later = walk_.step(receiver).kind == StepKind::recv_reduce;
    const TimeNs overhead = route_of(send).link.overhead_ns;
    const auto [begin, end] = compute(receiver.plan, now_, overhead + (applies_later ? 0 : model_.step_ns));
    if (!applies_later) note(receiver, begin, end);
    foresee(end, What::landed, send);
  }

  void land(Walk::At send) {
    const Walk::At receiver = walk_.partner(send);
    uint32_t& depth = depth_[walk_.number(receiver)];
    depth = std::max(depth, depth_[walk_.number(send)] + 1);
    cost_.longest_chain = std::max(cost_.longest_chain, depth);
    walk_.landed(send);
    if (walk_.step(receiver).kind == StepKind::recv) deepen_successors(receiver);
  }

  /// What follows a step is at least as deep in messages.
  void deepen_successors(Walk::At at) {
    const uint32_t depth = depth_[walk_.number(at)];
    for (const uint32_t next : walk_.world()[at.plan].successors_of(at.step)) {
      uint32_t& successor = depth_[walk_.number({at.plan, next})];
      successor = std::max(successor, depth);
    }
  }

  /// A rank does one thing at a time, on whichever of its host's CPUs is free first.
  std::pair<TimeNs, TimeNs> compute(uint32_t plan, TimeNs from, TimeNs duration) {
    if (model_.hosts.empty()) return use(cpus_[plan], from, duration);
    const auto host = static_cast<size_t>(model_.hosts[static_cast<size_t>(walk_.world()[plan].rank)]);
    if (host >= hosts_.size()) hosts_.resize(host + 1);
    std::vector<Cpu>& cpus = hosts_[host];
    if (cpus.empty()) cpus.resize(static_cast<size_t>(std::max(model_.cpus_of_hosts[host], 1)));
    const auto first = std::min_element(cpus.begin(), cpus.end(), [](const auto& a, const auto& b) { return a.free_ns < b.free_ns; });
    const auto span = use(*first, std::max(from, cpus_[plan].free_ns), duration);
    cpus_[plan].free_ns = span.second;
    return span;
  }

  static std::pair<TimeNs, TimeNs> use(Cpu& cpu, TimeNs from, TimeNs duration) {
    const TimeNs begin = std::max(from, cpu.free_ns);
    cpu.free_ns = begin + duration;
    return {begin, cpu.free_ns};
  }

  [[nodiscard]] uint64_t bytes_of(Walk::At at) const {
    const Step& step = walk_.step(at);
    const Plan& plan = walk_.world()[at.plan];
    if (plan.collective == Collective::sendrecv) return walk_.elements(step) * element_size_;
    return chunk_bytes(plan, step.dst().valid() ? step.dst() : step.src(), walk_.binding(), element_size_);
  }

  [[nodiscard]] TimeNs compute_ns(Walk::At at) const {
    const StepKind kind = walk_.step(at).kind;
    if (kind == StepKind::send || kind == StepKind::recv) return 0;  // messages without bytes
    if (const double rate = codec_rate(at); rate > 0) return transfer_ns(walk_.elements(walk_.step(at)) * element_size_, rate);
    const bool copies = kind == StepKind::copy || kind == StepKind::map;
    return transfer_ns(bytes_of(at), copies ? model_.copy_bytes_per_s : model_.reduce_bytes_per_s);
  }

  /// 0: the step does nothing to encodings, or what that costs is not known. Measuring costs what encoding is said to cost with it.
  [[nodiscard]] double codec_rate(Walk::At at) const {
    switch (walk_.step(at).kind) {
      case StepKind::encode:
        return model_.codec.encode_bytes_per_s;
      case StepKind::accumulate:
        return model_.codec.accumulate_bytes_per_s;
      case StepKind::recv_reduce:
        return adds_encodings(at) ? model_.codec.accumulate_bytes_per_s : 0;
      case StepKind::decode:
        return model_.codec.decode_bytes_per_s;
      default:
        return 0;
    }
  }

  [[nodiscard]] bool adds_encodings(Walk::At at) const {
    return walk_.world()[at.plan].regions[walk_.step(at).dst().region].layout == Layout::encoded;
  }

  void note(Walk::At at, TimeNs begin, TimeNs end) {
    if (with_times_) cost_.times.push_back({.rank = walk_.world()[at.plan].rank, .step = at.step, .begin_ns = begin, .end_ns = end});
  }

  Walk walk_;
  const CostModel& model_;
  size_t element_size_;
  bool with_times_;
  TimeNs limit_ns_;
  TimeNs now_ = 0;
  uint64_t sequence_ = 0;
  std::priority_queue<Happening> queue_;
  std::vector<Cpu> cpus_;                ///< of the ranks
  std::vector<std::vector<Cpu>> hosts_;  ///< of hosts that several ranks share
  std::vector<Link> links_;              ///< those of pairs, then the shared ones
  std::vector<Route> routes_;            ///< by pair
  std::vector<TimeNs> begins_;           ///< of sends, by number, where times are wanted
  std::vector<uint32_t> depth_;          ///< per step: messages on the longest chain before (and including) it
  Cost cost_;
};

}  // namespace

TimeNs occupancy_ns(const LinkCost& link, uint64_t bytes) {
  const std::span<const Knot> gaps = link.gaps;
  if (gaps.empty() || bytes == 0) return transfer_ns(bytes, link.rate_bytes_per_s);
  const auto above = std::lower_bound(gaps.begin(), gaps.end(), bytes, [](const Knot& knot, uint64_t at) { return knot.bytes < at; });
  const Knot origin;
  if (above == gaps.begin()) return on_line(origin, *above, bytes);
  if (above != gaps.end()) return on_line(*(above - 1), *above, bytes);
  return on_line(gaps.size() == 1 ? origin : gaps[gaps.size() - 2], gaps.back(), bytes);
}

Result<Cost> cost(World world, uint64_t count, size_t element_size, const CostModel& model, const CostOptions& options) {
  for (size_t plan = 0; plan < world.size() && !options.well_formed; ++plan) ISTHMUS_TRY(check_form(world[plan]));
  ISTHMUS_ASSIGN(Walk walk, Walk::start(world, count, Reads::pushed));
  return CostWalk(std::move(walk), model, element_size, options).run();
}

}  // namespace isthmus::plan
