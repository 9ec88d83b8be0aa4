// SPDX-License-Identifier: Apache-2.0
// The search: which algorithm, in how many segments, for which sizes of which collective on a given job. Candidates are left out by closed
// forms; the others are priced by walking their plans in virtual time. Called by the `isthmus` tool and by comm/ at set-up. Pure and
// deterministic: the same inputs give the same plan, because its limit counts events, not time. Fails where the profile has no facts.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "codec/named.h"
#include "collectives/select.h"
#include "topology/planner/formulas.h"
#include "topology/planner/scene.h"

namespace isthmus::topology {

/// What a candidate costs.
struct Price {
  collectives::Choice choice;
  TimeNs time_ns = 0;
  TimeNs bound_ns = 0;    ///< by its closed form
  bool walked = false;    ///< else the time is the closed forms' estimate
  bool given_up = false;  ///< it takes longer than that
};

/// Sizes for which one choice stands.
struct Interval {
  Collective collective = Collective::allreduce;
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;  ///< of the larger buffer; max inclusive
  collectives::Choice choice;
  bool pinned = false;    ///< by the user, whatever it costs
  uint64_t at_bytes = 0;  ///< the size that is priced below, within the interval
  TimeNs predicted_ns = 0;
  TimeNs bound_ns = 0;  ///< what no algorithm beats
  bool walked = false;
  collectives::Choice runner_up;  ///< the best other algorithm, or the same in other segments; null: none takes less than twice as long
  TimeNs runner_up_ns = 0;
};

/// A user's word: this choice for these sizes.
struct Pin {
  Collective collective = Collective::allreduce;
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;
  collectives::Choice choice;
};

struct SearchOptions {
  std::vector<Collective> collectives = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                                         Collective::broadcast, Collective::reduce,         Collective::alltoall};
  uint64_t least_bytes = 8, most_bytes = 64 << 20;  ///< sizes in between are looked at, by powers of two
  /// A choice is left only for one that is quicker by more than this.
  double hysteresis = 0.05;
  /// Walks stop after so many steps of plans (some 50 ms); then closed forms decide.
  uint64_t most_events = 150'000;
  std::vector<Pin> pins;  ///< the first that fits counts
};

/// Prices candidates of one job; keeps their plans.
class Pricer {
 public:
  /// `scene` and `codec` must outlive the pricer. With a codec it prices calls that travel as it, of which there are no closed forms.
  Pricer(const Scene& scene, uint64_t most_events, const codec::Named* codec = nullptr);
  Pricer(const Pricer&) = delete;
  Pricer& operator=(const Pricer&) = delete;

  /// Every choice that serves the job's ranks, with powers of two for segments.
  [[nodiscard]] std::vector<collectives::Choice> candidates(Collective collective, uint64_t bytes) const;
  /// Walks end at `limit_ns`; a price that is given up there says no more than that it takes longer.
  Result<Price> price(const collectives::Choice& choice, uint64_t bytes, TimeNs limit_ns = kNever);
  /// The quickest, then the others that had to be priced, by time. `favourite`, unless empty, is priced first; those that by their closed
  /// forms can be quicker than the quickest before them by no more than `margin` (0.05: 5 %) are left out, and so are those that take more
  /// than `patience` times as long as it.
  Result<std::vector<Price>> best(Collective collective, uint64_t bytes, const collectives::Choice& favourite, double margin,
                                  double patience = std::numeric_limits<double>::infinity());
  [[nodiscard]] const Formulas& formulas() const { return formulas_; }
  [[nodiscard]] uint64_t events() const { return events_; }
  [[nodiscard]] uint64_t walks() const { return walks_; }

 private:
  [[nodiscard]] bool finest_coded(uint32_t segments, uint64_t bytes) const;
  struct World {
    std::vector<plan::Plan> plans;  ///< of all ranks, or of the first if there are too many to be walked
    uint64_t steps = 0;
  };
  Result<const World*> world_of(const collectives::Choice& choice);

  const Scene& scene_;
  Formulas formulas_;
  uint64_t most_events_;
  const codec::Named* codec_;
  uint64_t events_ = 0, walks_ = 0;
  /// By algorithm, segments, leaders, way across; and by bytes.
  std::map<std::tuple<const plan::Algorithm*, uint32_t, uint32_t, plan::Across, uint64_t>, Price> prices_;
  std::map<std::tuple<const plan::Algorithm*, uint32_t, uint32_t, plan::Across>, World> worlds_;
};

/// Of prices in order of time: the quickest algorithm in the fewest segments that are within 2 % of it, with as many leaders as can be
/// and directly across if that is, too. More messages, fewer leaders, and other ways across need a reason.
const Price& preferred(std::span<const Price> prices);

/// Intervals of all collectives, in order, without gaps from 0 to the largest size.
Result<std::vector<Interval>> search(const Scene& scene, const SearchOptions& options);

}  // namespace isthmus::topology
