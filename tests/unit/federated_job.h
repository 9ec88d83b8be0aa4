// SPDX-License-Identifier: Apache-2.0
// An aggregator and its contributors on one network in memory and one clock that the test moves. For the tests of the federated room.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "federated/aggregator.h"
#include "federated/contributor.h"
#include "federated_direct.h"
#include "memory_network.h"

namespace isthmus::federated {

inline constexpr uint32_t kSmallChunk = kChunkAlignElements;

struct JobOptions {
  uint32_t ranks = 3;
  uint32_t quorum = 0;
  const char* codec = "thc";
  uint64_t rounds = 0;
  uint32_t kept_rounds = 2;
  uint64_t memory_bytes = 64 << 20;
  size_t queue_bytes = 1 << 20;
  const Crypto* crypto = nullptr;
  std::optional<GroupRules> group = std::nullopt;
  TimeNs deadline_ns = kSecondNs;
  uint64_t epoch = 0;
  uint32_t at_once = 16;
  uint64_t elements_at_once = 4 << 20;
  bool follows_epochs = false;
};

/// A rank: its machine, its vector, and what became of its latest call.
struct Rank {
  std::unique_ptr<Contributor> machine;
  std::vector<std::byte> in, out;
  Signature signature;
  bool calling = false;
  Status status;
  Contributed result;
  int calls = 0;  ///< that have ended
};

class Job {
 public:
  explicit Job(const JobOptions& chosen = {}) : options(chosen), crypto(chosen.crypto ? *chosen.crypto : *Crypto::load().value()) {
    auto made = codec::make_thc(*codec::parse_thc(options.codec), options.ranks);
    EXPECT_TRUE(made.ok()) << made.status().text();
    thc = std::move(made).value();
    auto opened = Aggregator::open(surroundings(), key, aggregator_options(), std::vector{testing::address_of(1, 4000)});
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    aggregator = std::move(opened).value();
  }

  AggregatorOptions aggregator_options() const {
    return {.thc = thc,
            .quorum = options.quorum,
            .deadline_ns = options.deadline_ns,
            .chunk_elements = kSmallChunk,
            .memory_bytes = options.memory_bytes,
            .queue_bytes = options.queue_bytes,
            .kept_rounds = options.kept_rounds,
            .rounds = options.rounds,
            .group = options.group,
            .epoch = options.epoch,
            .follows_epochs = options.follows_epochs,
            .at_once = options.at_once,
            .elements_at_once = options.elements_at_once,
            .masking = Masking::load().value()};
  }
  bootstrap::Surroundings surroundings() { return {.network = network, .crypto = crypto, .log = log, .process = {1, 2, 3}}; }

  /// A contributor that knows the right secret, for rank `rank` of as many as there are.
  Result<std::unique_ptr<Contributor>> contributor(uint32_t rank, ContributorOptions chosen = {}) {
    chosen.addresses = {testing::address_of(1, 4000)};
    chosen.rank = rank;
    if (chosen.ranks == 1) chosen.ranks = options.ranks;
    if (!chosen.group) chosen.group = options.group;
    if (chosen.epoch == 0) chosen.epoch = options.epoch;
    chosen.masking = Masking::load().value();
    return Contributor::make(surroundings(), key, std::move(chosen));
  }
  Rank& add(uint32_t rank, const ContributorOptions& chosen = {}) {
    auto made = contributor(rank, chosen);
    EXPECT_TRUE(made.ok()) << made.status().text();
    Rank& one = ranks[rank];
    one = {.machine = std::move(made).value()};
    one.machine->connect(now);
    return one;
  }
  void add_all() {
    for (uint32_t rank = 0; rank < options.ranks; ++rank) add(rank);
    EXPECT_TRUE(run(kSecondNs, [this] { return aggregator->connected() == options.ranks; }));
  }

  /// Rank `rank` calls; its vector depends on its rank and `draw`.
  void call(uint32_t rank, size_t count, uint64_t draw = 0, DataType type = DataType::float32, ReduceOp op = ReduceOp::avg) {
    Rank& one = ranks.at(rank);
    one.in = input(rank, count, draw, type);
    one.out.assign(one.in.size(), std::byte{0xee});
    one.signature = {.count = count, .type = type, .op = op};
    begin(rank, one.out.data());
  }
  void begin(uint32_t rank, void* out) {
    Rank& one = ranks.at(rank);
    one.status = one.machine->begin({.in = one.in.data(), .out = out, .signature = one.signature}, now);
    one.calling = one.status.ok();
  }
  void call_all(size_t count, uint64_t draw = 0) {
    for (auto& [rank, one] : ranks) call(rank, count, draw);
  }

  void poll() {
    if (aggregator && !aggregator->poll(now)) ended = true;
    if (aggregator) {
      for (RoundReport& report : aggregator->take_reports()) reports.push_back(std::move(report));
      for (const LateArrival& late : aggregator->take_late_arrivals()) late_arrivals.push_back(late);
    }
    for (auto& [rank, one] : ranks) {
      if (!one.machine || stopped.contains(rank)) continue;
      const auto over = one.machine->poll(now);
      if (over.ok() && !*over) continue;
      if (!over.ok()) one.status = over.status();
      if (!one.calling) continue;
      one.calling = false;
      ++one.calls;
      if (over.ok()) one.result = one.machine->result();
    }
  }
  /// Until `finished` or so much time has passed; true if finished.
  bool run(TimeNs duration, const std::function<bool()>& finished) {
    for (const TimeNs end = now + duration; now < end; now += 5 * kMillisecondNs) {
      poll();
      if (finished()) return true;
    }
    return false;
  }
  void pass(TimeNs duration) {
    run(duration, [] { return false; });
  }
  [[nodiscard]] bool anybody_calls() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [this](const auto& each) { return each.second.calling && !stopped.contains(each.first); });
  }
  bool finish(TimeNs duration = 5 * kSecondNs) {
    return run(duration, [this] { return !anybody_calls(); });
  }

  static std::vector<std::byte> input(uint32_t rank, size_t count, uint64_t draw, DataType type = DataType::float32) {
    return testing::as_type(testing::random_vector(count, draw * 1000 + rank), type);
  }
  /// What the kernels alone make of the vectors of `added`, with the scales of `measured`.
  [[nodiscard]] std::vector<std::byte> expected(uint64_t round, size_t count, uint64_t draw, const std::vector<uint32_t>& measured,
                                                const std::vector<uint32_t>& added, DataType type = DataType::float32,
                                                ReduceOp op = ReduceOp::avg) {
    std::vector<std::vector<std::byte>> inputs;
    for (uint32_t rank = 0; rank < options.ranks; ++rank) inputs.push_back(input(rank, count, draw, type));
    for (auto& [rank, one] : ranks) {
      if (one.machine && one.machine->terms().seed != 0) seed = one.machine->terms().seed;
    }
    return testing::Direct{
        .thc = *thc, .seed = seed, .round = round, .chunk_elements = kSmallChunk, .average = op == ReduceOp::avg, .type = type}
        .result(inputs, measured, added);
  }
  static std::vector<uint32_t> numbers(const RankSet& set) {
    const auto ranks = ranks_of(set);
    return {ranks.begin(), ranks.end()};
  }

  JobOptions options;
  const Crypto& crypto;
  Key key{std::byte{42}};
  testing::MemoryNetwork network;
  std::string log_text;
  Logger log{{.level = LogLevel::info, .subsystems = ~0U, .sink = [this](std::string_view lines) { log_text += lines; }}};
  TimeNs now = 1000 * kSecondNs;
  std::shared_ptr<const codec::Thc> thc;
  std::unique_ptr<Aggregator> aggregator;
  std::map<uint32_t, Rank> ranks;
  std::set<uint32_t> stopped;  ///< ranks that do nothing for a while
  std::vector<RoundReport> reports;
  std::vector<LateArrival> late_arrivals;
  bool ended = false;
  uint64_t seed = 0;
};

}  // namespace isthmus::federated
