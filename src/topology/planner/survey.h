// SPDX-License-Identifier: Apache-2.0
// What to measure between the ranks of a job, and what the results say. In phases: each rank carries out its experiments of a phase, then
// all agree on the results, and everybody's next phase follows from those. Carried out by comm/survey. Pure, and the same on all ranks
// because it goes by agreed results only; nothing here fails.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "topology/planner/layout.h"
#include "topology/planner/profile.h"

namespace isthmus::topology {

/// `from` sends so many messages of so many bytes, then `to` answers with one of Experiment::kAnswerBytes.
struct Round {
  uint64_t bytes = 0;
  uint32_t messages = 1;
  friend bool operator==(const Round&, const Round&) = default;
};

/// What two ranks do: rounds, one after the other. `from` takes the time of each, from its first message to the answer.
struct Experiment {
  static constexpr uint64_t kAnswerBytes = 8;
  int32_t from = 0, to = 0;
  std::vector<Round> rounds;
  bool by_rank =
      false;  ///< of all times but the first, which may open a connection, the least and the 99th percentile are told; else the last two

  /// What is told of the rounds' times; at least one.
  [[nodiscard]] std::array<int64_t, 2> report(std::vector<TimeNs> times_ns) const;
};

class SurveyPlan {
 public:
  /// Results are a header, then two numbers for each experiment; zero except at the rank that has measured, so that their largest over all
  /// ranks is what was measured. Of the header, all ranks tell how long the survey takes so far, rank 0 the rest.
  enum Header : uint8_t { kElapsedNs, kBudgetNs, kWallClockS, kReduceBytesPerS, kCopyBytesPerS, kDriftPercent, kHeader };
  static constexpr size_t kPerExperiment = 2;

  /// Experiments stop when they have taken what the header calls the budget, as far as can be told before each; those of the first phase
  /// are always made. `finds_sites`: nobody names the hosts' buildings, so that round trips between all hosts are to tell them first, if
  /// there are several hosts but not too many; that is not what the budget is for.
  explicit SurveyPlan(Layout layout, bool finds_sites = false);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// What the present phase is for.
  [[nodiscard]] bool looks_for_sites() const { return phase_ == Phase::places; }
  /// By rank: the building that was found; empty: none was looked for.
  [[nodiscard]] const std::vector<int32_t>& found_sites() const { return found_sites_; }
  /// Those of the present phase, in the order in which every rank carries out its own; none: the survey is over.
  [[nodiscard]] const std::vector<Experiment>& experiments() const { return experiments_; }
  [[nodiscard]] size_t result_count() const { return kHeader + kPerExperiment * experiments_.size(); }
  /// The agreed results of the present phase, result_count() of them: on to the next.
  void accept(std::span<const int64_t> results);
  /// What was measured; assumptions about kinds of link of which nothing was.
  [[nodiscard]] Profile profile() const;

 private:
  enum class Phase : uint8_t { places, rough, detail, cuts, over };
  enum class What : uint8_t { place, ping, burst, stream, wake, cut };
  /// Messages of one direction between a pair's two ranks; or all streams at once between the members that they stand for.
  struct Rate {
    double bytes_per_s = 0;  ///< 0: not measured
    uint64_t bytes = 0;      ///< of the message by which it was
    bool rises = false;      ///< a larger message may show more
  };
  /// Two ranks that stand for all that are so far apart, or (`named`) for the two members they are of.
  struct Pair {
    std::optional<Level> within;
    int32_t from = 0, to = 0;
    bool named = false;
    TimeNs round_trip_ns = 0, slow_trip_ns = 0, burst_ns = 0;
    uint32_t samples = 0;
    std::array<Rate, 2> streams, cuts;  ///< there and back
  };
  struct Order {
    What what;
    size_t pair, direction;
    uint64_t bytes = 0;  ///< of a stream's last message
  };

  void begin();
  void add_places();
  void settle_places();
  void find_pairs();
  void find_widest_pairs(Level widest);
  void add(const Order& order, Experiment experiment);
  [[nodiscard]] bool fits(double cost_ns, int32_t from, int32_t to);
  void add_rough();
  void add_details();
  void add_stream(size_t pair, size_t direction);
  void add_more();
  void add_cut();
  void next();
  void take(const Order& order, TimeNs first, TimeNs second);
  [[nodiscard]] std::vector<std::pair<int32_t, int32_t>> counterparts(const Pair& pair, size_t direction) const;
  [[nodiscard]] LinkFacts facts(const Pair& pair, size_t direction) const;
  [[nodiscard]] uint64_t port(std::optional<Level> within) const;

  Layout layout_;
  double left_ns_ = 0;                 ///< of the budget, when the present phase began
  std::map<int32_t, double> busy_ns_;  ///< by rank, what its experiments of the present phase take
  Phase phase_ = Phase::rough;
  int rises_ = 0;        ///< phases that were about larger messages
  size_t next_cut_ = 0;  ///< several steps to a pair
  std::vector<Pair> pairs_;
  std::map<std::pair<int32_t, int32_t>, TimeNs> trips_;  ///< the least between two hosts, the lower one first
  std::vector<int32_t> found_sites_;
  std::vector<Experiment> experiments_;
  std::vector<Order> orders_;  ///< what each experiment is about
  std::array<int64_t, kHeader> header_{};
};

}  // namespace isthmus::topology
