// SPDX-License-Identifier: Apache-2.0
// The cost walk: drives the abstract machine in virtual time. Called by the planner, perf and the isthmus tool; fails only on plans
// that are malformed or stall.
#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
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

/// Something that is used by one at a time.
struct Resource {
  TimeNs free_ns = 0;
};

class CostWalk {
 public:
  CostWalk(Walk walk, const CostModel& model, size_t element_size, bool with_times)
      : walk_(std::move(walk)), model_(model), element_size_(element_size), with_times_(with_times) {
    cpus_.resize(walk_.world().size());
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
      happen(next);
      begin_enabled();
    }
    if (!walk_.done()) return internal_error("the plans wait for each other:" + walk_.describe_stall());
    cost_.total_ns = now_;
    return std::move(cost_);
  }

 private:
  enum class What : uint8_t { computed, left, arrived, landed };
  struct Happening {
    TimeNs time_ns;
    uint64_t sequence;  ///< ties happen in the order in which they were foreseen
    What what;
    Walk::At at;
    bool operator<(const Happening& other) const {  // std::priority_queue puts the greatest first
      return std::pair(time_ns, sequence) > std::pair(other.time_ns, other.sequence);
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
    const Walk::At receiver = walk_.partner(send);
    const int from = walk_.world()[send.plan].rank, to = walk_.world()[receiver.plan].rank;
    const uint64_t bytes = bytes_of(send);
    const LinkCost link = model_.link ? model_.link(from, to) : LinkCost{};
    const auto [begin, ready] = compute(send.plan, now_, model_.step_ns + link.overhead_ns);
    const Passage passage = pass(link, from, to, bytes, ready);
    cost_.sent_bytes[send.plan] += bytes;
    ++cost_.sent_messages[send.plan];
    note(send, begin, passage.left);
    foresee(passage.left, What::left, send);
    foresee(passage.arrives, What::arrived, send);
  }

  /// When a message's last byte leaves the sender and reaches the receiver.
  struct Passage {
    TimeNs left, arrives;
  };

  /// Puts the bytes on the link, and at the same time on all that it shares with other pairs.
  Passage pass(const LinkCost& link, int from, int to, uint64_t bytes, TimeNs ready) {
    const std::span<const SharedLink> shared = model_.shared ? model_.shared(from, to) : std::span<const SharedLink>();
    Resource& wire = links_[{from, to}];
    TimeNs begin = std::max(ready, wire.free_ns), latency_ns = link.latency_ns;
    for (const SharedLink& one : shared) begin = std::max(begin, shared_link(one).free_ns);
    TimeNs left = use(wire, begin, occupancy_ns(link, bytes)).second;
    for (const SharedLink& one : shared) {
      left = std::max(left, use(shared_link(one), begin, one.cost.overhead_ns + occupancy_ns(one.cost, bytes)).second);
      latency_ns += one.cost.latency_ns;
    }
    return {left, left + latency_ns};
  }

  Resource& shared_link(const SharedLink& link) {
    const auto id = static_cast<size_t>(link.id);
    if (id >= shared_.size()) shared_.resize(id + 1);
    return shared_[id];
  }

  void begin_landing(Walk::At send) {
    const Walk::At receiver = walk_.partner(send);
    const int from = walk_.world()[send.plan].rank, to = walk_.world()[receiver.plan].rank;
    const bool applies_later = walk_.step(receiver).kind == StepKind::recv_reduce;
    const TimeNs overhead = model_.link ? model_.link(from, to).overhead_ns : 0;
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
    std::vector<Resource>& cpus = hosts_[host];
    if (cpus.empty()) cpus.resize(static_cast<size_t>(std::max(model_.cpus_of_hosts[host], 1)));
    const auto first = std::min_element(cpus.begin(), cpus.end(), [](const auto& a, const auto& b) { return a.free_ns < b.free_ns; });
    const auto span = use(*first, std::max(from, cpus_[plan].free_ns), duration);
    cpus_[plan].free_ns = span.second;
    return span;
  }

  static std::pair<TimeNs, TimeNs> use(Resource& resource, TimeNs from, TimeNs duration) {
    const TimeNs begin = std::max(from, resource.free_ns);
    resource.free_ns = begin + duration;
    return {begin, resource.free_ns};
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
    const bool copies = kind == StepKind::copy || kind == StepKind::map;
    return transfer_ns(bytes_of(at), copies ? model_.copy_bytes_per_s : model_.reduce_bytes_per_s);
  }

  void note(Walk::At at, TimeNs begin, TimeNs end) {
    if (with_times_) cost_.times.push_back({.rank = walk_.world()[at.plan].rank, .step = at.step, .begin_ns = begin, .end_ns = end});
  }

  Walk walk_;
  const CostModel& model_;
  size_t element_size_;
  bool with_times_;
  TimeNs now_ = 0;
  uint64_t sequence_ = 0;
  std::priority_queue<Happening> queue_;
  std::vector<Resource> cpus_;
  std::map<std::pair<int, int>, Resource> links_;
  std::vector<Resource> shared_;               ///< by SharedLink::id
  std::vector<std::vector<Resource>> hosts_;  ///< their CPUs
  std::vector<uint32_t> depth_;  ///< per step: messages on the longest chain before (and including) it
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

Result<Cost> cost(World world, uint64_t count, size_t element_size, const CostModel& model, bool with_times) {
  for (const Plan& plan : world) ISTHMUS_TRY(check_form(plan));
  ISTHMUS_ASSIGN(Walk walk, Walk::start(world, count, Reads::pushed));
  return CostWalk(std::move(walk), model, element_size, with_times).run();
}

}  // namespace isthmus::plan
