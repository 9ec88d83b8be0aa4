// SPDX-License-Identifier: Apache-2.0
// coordinator.h: opening, and the rounds. What members say is in coordinator_events.cc.
#include "cli/federated/run/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "federated/group_sum.h"
#include "federated/waiting.h"

namespace isthmus::cli {
namespace {

using federated::RankSet;

constexpr uint32_t kChunkElements = 8192;
constexpr uint64_t kMemoryBytes = 256 << 20;
constexpr uint32_t kMostPort = 65535;
constexpr TimeNs kPartingNs = 2 * kSecondNs;  // for members to read what they were told last

std::vector<transport::Address> at_port(std::vector<transport::Address> addresses, uint32_t port) {
  for (transport::Address& address : addresses) address.port = static_cast<uint16_t>(port);
  if (port == 0) addresses.resize(1);  // each would have another port
  return addresses;
}

uint32_t share_of(double share, size_t many) {
  return std::max(1U, static_cast<uint32_t>(std::ceil(share * static_cast<double>(many) - 1e-9)));
}

std::string names(const RankSet& members) { return number_ranges(federated::ranks_of(members)); }

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::open(const Premises& premises, const RunRules& rules, const Masking* masking,
                                                       Chronicle& chronicle, const Fd& signals) {
  std::unique_ptr<Coordinator> made(new Coordinator(premises, rules, chronicle, signals));
  ISTHMUS_TRY(made->listen(masking));
  return made;
}

Status Coordinator::listen(const Masking* masking) {
  const uint32_t port = premises_.addresses.front().port, clusters = rules_.most_clusters();
  const uint32_t ports = clusters * (rules_.masked && rules_.plain_small ? 2 : 1);
  if (port != 0 && port + ports > kMostPort) {
    return invalid_argument(
        fmt::format("--listen: sums of clusters need the {} ports behind {}, and {} is the last that there is", ports, port, kMostPort));
  }
  const size_t most_values = std::max<size_t>(kParameters, kMlpParameters);
  const size_t most_bytes = 4096 + size_t{rules_.clients_each} * (24 + 4 * most_values) + 32 * size_t{clusters};
  ISTHMUS_ASSIGN(door_, Door::open(*premises_.surroundings, run_key(premises_.surroundings->crypto, premises_.key), rules_.members,
                                   most_bytes, premises_.addresses));
  const uint32_t first = port == 0 ? 0 : port + 1;
  if (rules_.masked) {
    ISTHMUS_ASSIGN(masked_, open_sums(rules_.masked_group(), masking, first));
  }
  if (!rules_.masked || rules_.plain_small) {
    ISTHMUS_ASSIGN(plain_, open_sums(rules_.plain_group(), nullptr, port == 0 || !rules_.masked ? first : first + clusters));
  }
  return {};
}

Result<Coordinator::Aggregators> Coordinator::open_sums(const federated::GroupRules& group, const Masking* masking,
                                                        uint32_t first_port) const {
  federated::AggregatorOptions options;
  ISTHMUS_ASSIGN(const codec::ThcConfig config, codec::parse_thc(rules_.codec));
  ISTHMUS_ASSIGN(options.thc, codec::make_thc(config, rules_.members));
  options.quorum = 1;
  options.deadline_ns = rules_.deadline_ns / 2;
  options.chunk_elements = kChunkElements;
  options.memory_bytes = kMemoryBytes;
  options.group = group;
  options.masking = masking;
  options.peer_timeout_ns = premises_.settings.peer_timeout_ns;
  options.target = &kernels::select_target(premises_.settings.simd);
  Aggregators made;
  for (uint32_t cluster = 0; cluster < rules_.most_clusters(); ++cluster) {
    const auto at = at_port(premises_.addresses, first_port == 0 ? 0 : first_port + cluster);
    auto one = federated::Aggregator::open(*premises_.surroundings, premises_.key, options, at);
    if (!one.ok()) return one.status().with_context(fmt::format("sums of cluster {}", cluster));
    made.push_back(std::move(one).value());
    made.back()->convene({}, 1, 0, federated::clock_now());
  }
  return made;
}

RunTerms Coordinator::terms() const {
  const auto ports_of = [](const Aggregators& aggregators) {
    std::vector<uint16_t> ports;
    ports.reserve(aggregators.size());
    for (const auto& one : aggregators) ports.push_back(one->addresses().front().port);
    return ports;
  };
  return terms_of(rules_, ports_of(masked_), ports_of(plain_));
}

int Coordinator::run() {
  std::vector<std::string> addresses;
  for (const transport::Address& address : door_->addresses()) addresses.push_back(transport::to_string(address));
  chronicle_.begin(rules_, addresses);
  const TimeNs began_at = federated::clock_now();
  const Status led = lead();
  say_goodbye(led.ok() ? "" : led.text());
  chronicle_.end(round_, static_cast<double>(federated::clock_now() - began_at) / kSecondNs, led.ok() ? "" : led.text());
  if (signal_ != 0) return 128 + signal_;
  return led.ok() ? 0 : complain(led, "federated run");
}

Status Coordinator::lead() {
  for (uint32_t round = 1; round <= rules_.episode.rounds; ++round) {
    ISTHMUS_TRY(wait_for_members(round));
    ISTHMUS_TRY(lead_round(round));
  }
  return {};
}

/// All at first; later those who are enough, while others come back.
Status Coordinator::wait_for_members(uint32_t round) {
  const uint32_t enough = share_of(rules_.quorum, rules_.members), wanted = round == 1 ? rules_.members : enough;
  const TimeNs by = federated::clock_now() + rules_.wait_ns;
  const auto here = [&] { return ready_.count() >= wanted; };
  if (!here()) Chronicle::news(fmt::format("round {} waits for members: {} of {} are here", round, ready_.count(), rules_.members));
  ISTHMUS_TRY(pump(here, by));
  if (ready_.count() >= enough) return {};
  RankSet missing;
  for (uint32_t member = 0; member < rules_.members; ++member) missing.set(member, !ready_[member]);
  return timeout_error(fmt::format("round {}: {} of {} members are here after {}, and {} are needed; missing: {}", round, ready_.count(),
                                   rules_.members, duration_text(rules_.wait_ns), enough, names(missing)));
}

Status Coordinator::lead_round(uint32_t round) {
  const TimeNs began_at = federated::clock_now();
  call(round);
  ISTHMUS_TRY(pump([&] { return (in_round_ & ~reported_).none(); }, began_at + rules_.deadline_ns / 4));
  calling_ = false;
  in_round_ &= reported_;
  ISTHMUS_ASSIGN(const federated::DriftReport drift, grouping_.update(round));
  convene(round);
  send_plans(round);
  ISTHMUS_TRY(pump([&] { return all_over(); }, began_at + rules_.deadline_ns));
  close(round);
  tell(drift, began_at);
  return {};
}

void Coordinator::call(uint32_t round) {
  round_ = round;
  calling_ = true;
  grouping_.open(round);
  in_round_ = ready_;
  reported_ = done_ = {};
  results_.clear();
  sums_.clear();
  const std::span<const float> centres = grouping_.centres().values;
  for (const int32_t one : federated::ranks_of(in_round_)) {
    const auto member = static_cast<uint32_t>(one);
    RunCall message{.round = round,
                    .looks = grouping_.looks(round),
                    .centres = {centres.begin(), centres.end()},
                    .clusters = grouping_.clusters_of(member),
                    .probe = {}};
    if (!knows_probe_[member]) message.probe = grouping_.probe();
    knows_probe_.set(member, !grouping_.probe().empty());
    door_->say(member, RunType::call, encode(message));
  }
}

/// Who makes which sum.
void Coordinator::convene(uint32_t round) {
  for (uint32_t cluster = 0; cluster < grouping_.k(); ++cluster) {
    Sum sum;
    sum.record.cluster = cluster;
    const RankSet owners = grouping_.members_of(cluster);
    sum.record.members = owners & in_round_;
    sum.record.failure = choose_sum(sum.record, owners);
    if (sum.record.sum != SumKind::none) {
      sum.by = (sum.record.sum == SumKind::masked ? masked_ : plain_)[cluster].get();
      sum.by->convene(sum.record.members, share_of(rules_.quorum, owners.count()), round, federated::clock_now());
    }
    sums_.push_back(std::move(sum));
  }
}

/// Why there will be no sum, or nothing.
std::string Coordinator::choose_sum(ClusterRecord& record, const RankSet& owners) const {
  const auto many = static_cast<uint32_t>(record.members.count());
  if (owners.none()) return "";
  const uint32_t needed = share_of(rules_.quorum, owners.count());
  if (many < needed)
    return fmt::format("{} of its {} members take part, and {} are needed for a mean: they train alone", many, owners.count(), needed);
  record.sum = SumKind::plain;
  if (!rules_.masked) return "";
  if (many >= rules_.min_cohort) {
    record.sum = SumKind::masked;
  } else if (!rules_.plain_small) {
    record.sum = SumKind::none;
    return fmt::format("{} members are too few for a masked sum, which has at least {}: they train alone (or see --plain-small)", many,
                       rules_.min_cohort);
  }
  return "";
}

void Coordinator::send_plans(uint32_t round) {
  for (const int32_t one : federated::ranks_of(in_round_)) {
    const auto member = static_cast<uint32_t>(one);
    RunPlan plan{.round = round, .epoch = grouping_.epoch(), .clusters = grouping_.clusters_of(member), .parts = {}};
    for (const Sum& sum : sums_) {
      if (!sum.record.members[member]) continue;
      const Model& model = grouping_.model(sum.record.cluster);
      RunPlan::Part part{.cluster = sum.record.cluster, .sum = sum.record.sum, .model = hash_of(model), .values = {}};
      const auto& held = held_[member];
      const bool has_it =
          std::any_of(held.begin(), held.end(), [&](const auto& each) { return each.cluster == part.cluster && each.model == part.model; });
      if (!has_it) part.values = model;
      plan.parts.push_back(std::move(part));
    }
    door_->say(member, RunType::plan, encode(plan));
  }
}

bool Coordinator::all_over() const {
  const auto over = [this](const Sum& sum) { return sum.by == nullptr || sum.report || (sum.record.members & in_round_).none(); };
  return (in_round_ & ~done_).none() && std::all_of(sums_.begin(), sums_.end(), over);
}

/// The round is over: sums that are not made will not be.
void Coordinator::close(uint32_t round) {
  const TimeNs now = federated::clock_now();
  for (Sum& sum : sums_) {
    if (sum.by == nullptr) continue;
    if (!sum.report) sum.by->give_up(fmt::format("its time, {}, is over", duration_text(rules_.deadline_ns)), now);
  }
  collect(masked_, now);
  collect(plain_, now);
  for (Sum& sum : sums_) {
    if (sum.by != nullptr) take_sum(sum);
    if (sum.by != nullptr) sum.by->convene({}, 1, round, now);
    sum.record.model = hash_of(grouping_.model(sum.record.cluster));
  }
}

void Coordinator::take_sum(Sum& sum) {
  ClusterRecord& record = sum.record;
  if (!sum.report) {
    record.failure = "nobody came";
    return;
  }
  const federated::RoundReport& report = *sum.report;
  record.late = report.late;
  record.seconds = static_cast<double>(report.duration_ns) / kSecondNs;
  Status status = report.failure;
  std::vector<float> mean(parameters_of(rules_.model));
  if (status.ok()) status = sum.by->decode(report.round, mean);
  if (!status.ok()) {
    record.failure = status.text();
    return;
  }
  record.survivors = report.contributors;
  record.weight_sum = report.weight_sum;
  federated::divide_by_weight(mean, rules_.plain_group().largest_weight, federated::units_of_weight(report.weight_sum));
  grouping_.add(record.cluster, mean);
}

void Coordinator::tell(const federated::DriftReport& drift, TimeNs began_at) {
  RunRecord record{.drift = drift, .members = in_round_, .clusters = {}};
  for (Sum& sum : sums_) record.clusters.push_back(sum.record);
  record.answers = static_cast<uint32_t>(results_.size());
  for (const RunResult& result : results_) {
    record.accuracy += result.accuracy / static_cast<double>(results_.size());
    record.sent_bytes += result.sent_bytes;
    record.received_bytes += result.received_bytes;
  }
  const uint64_t stale = stale_ + stale_contributions();
  record.stale = stale - std::exchange(stale_before_, stale);
  record.seconds = static_cast<double>(federated::clock_now() - began_at) / kSecondNs;
  chronicle_.round(record);
}

void Coordinator::say_goodbye(const std::string& why) {
  door_->say_to_all(RunType::end, encode(RunEnd{.why = why}));
  const auto told = [this] { return door_->here().none() && door_->has_said_all(); };
  (void)pump(told, federated::clock_now() + kPartingNs).ok();
}

}  // namespace isthmus::cli
