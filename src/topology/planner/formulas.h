// SPDX-License-Identifier: Apache-2.0
// Closed forms: least times of collectives, from the links that an algorithm's messages take. The planner leaves out what cannot win by
// them, prices with them where plans have too many messages to be walked, and compares them with the bound that no algorithm beats. Pure;
// cannot fail.
//
// Each form is the greatest of two kinds of lower bounds on the cost walk's time, so that it holds on any mix of links: a chain of messages
// that wait for each other (latencies are paid once each), whose segments follow each other on its slowest link, and what must go through
// one link, port or cut. On links of one kind the chain is the textbook's formula: ring 2(P-1)(a + n/PB) + (P-1) n g/P, recursive doubling
// lg P (a + n/B + n g), and so on (Thakur, Rabenseifner, Gropp 2005).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/select.h"
#include "collectives/tree.h"
#include "topology/planner/scene.h"

namespace isthmus::topology {

class Formulas {
 public:
  /// Times are those of elements of so many bytes.
  static constexpr size_t kElementBytes = 4;

  /// `scene` must outlive the formulas.
  explicit Formulas(const Scene& scene);

  /// For a call whose larger buffer has `bytes`, out of place, with root 0.
  struct Times {
    TimeNs least_ns = 0;     ///< no walk is quicker
    TimeNs estimate_ns = 0;  ///< where nothing is walked: the longest chain of one segment, and what the busiest link does besides
  };
  [[nodiscard]] Times times(const collectives::Choice& choice, uint64_t bytes) const;

  /// Algorithms that go by sites are for jobs that have several, but not so many that every host is one.
  [[nodiscard]] bool suits(const plan::Algorithm& algorithm) const;
  /// Numbers of leaders that are worth a look: 0 (as many as can be), and for algorithms that list the tunable 1, 4, 16, ... where that is
  /// fewer.
  [[nodiscard]] std::vector<uint32_t> leaders(const plan::Algorithm& algorithm) const;
  /// Ways across sites that are worth a look: between two sites, direct only.
  [[nodiscard]] std::vector<plan::Across> ways_across(const plan::Algorithm& algorithm) const;
  /// Elements of each block (of the buffer, where it is not a block for each rank) of a call whose larger buffer has `bytes`.
  [[nodiscard]] uint64_t elements_of(Collective collective, uint64_t bytes) const;
  /// True where more segments than these cannot be told from these, because cells would be too small.
  [[nodiscard]] bool finest(const collectives::Choice& choice, uint64_t bytes) const;

  /// What no algorithm that sends elements as they are can beat: the bytes that must leave or enter each site through its cuts, and one
  /// latency between the farthest ranks.
  [[nodiscard]] TimeNs physical_bound_ns(Collective collective, uint64_t bytes) const;

  /// What hierarchies of this job go by.
  [[nodiscard]] std::span<const int32_t> divisions() const { return divisions_; }

 private:
  /// A message and what follows it at the receiver.
  struct Hop {
    const LinkFacts* link = nullptr;
    double share = 0;  ///< of the buffer
    bool reduces = false;
  };
  using Path = std::vector<Hop>;
  /// What of the buffer goes through a shared link; the least latency of the messages; and what comes before the first of them and after
  /// the last.
  struct Load {
    double share = 0;
    double rate_bytes_per_s = 0;
    TimeNs latency_ns = kNever;
    Path around;
  };
  using Loads = std::map<int32_t, Load>;
  /// What is known of one algorithm: paths, of which each is a lower bound, loads, and the busiest pair.
  struct Form {
    std::vector<Path> paths;
    bool first_cell = true;  ///< the paths are those of the first cell, which has elements whenever there are any
    Loads loads;
    std::vector<Hop> pairs;       ///< one message of each kind of pair, whose link carries `pair_messages` of them
    double pair_messages = 0;     ///< in a row, per segment
    double cells = 1;             ///< into which the buffer is cut, per segment
    double inbox_messages = 0;    ///< summed up by one rank, from the same kind of link, per segment
    TimeNs inbox_latency_ns = 0;  ///< of that
    uint32_t most_parts = 0;      ///< 0: segments cut cells; else messages of so many cells travel in so many parts at most
  };

  class Hierarchy;  // forms_sites.cc

  [[nodiscard]] Form make_form(const collectives::Choice& choice) const;
  [[nodiscard]] const Form* form_of(const collectives::Choice& choice) const;
  void describe_ring(Form& form, bool reduces, bool gathers) const;
  void describe_halving(Form& form, bool reduces, bool gathers) const;
  void describe_direct(Form& form, bool reduces, bool gathers) const;
  void describe_doubling(Form& form) const;
  void describe_one_shot(Form& form) const;
  void describe_tree(Form& form, bool reduces) const;
  void describe_chain(Form& form, bool by_site, bool reduces) const;
  void describe_hierarchy(Form& form, const collectives::Choice& choice) const;
  void describe_exchange(Form& form) const;
  void describe_large_exchange(Form& form) const;

  [[nodiscard]] double share_of(int32_t begin, int32_t end) const;
  void add_load(Loads& loads, int32_t from, int32_t to, double share) const;
  void add_crossing(Loads& loads, int32_t from, int32_t to, double share, const Path& around) const;
  void add_share(Load& load, const plan::SharedLink& through, int32_t from, int32_t to, double share) const;
  /// For a buffer of `whole` bytes, of which every cell has its share.
  [[nodiscard]] Times of_bytes(const Form& form, double whole, double cells, double most_cells) const;
  /// Of the smallest messages that there are.
  [[nodiscard]] TimeNs longest_chain_ns(const Form& form) const;
  [[nodiscard]] TimeNs busiest_pair_ns(const Form& form, double whole, double segments, double filled) const;
  [[nodiscard]] TimeNs busiest_load_ns(const Form& form, double whole, double segments) const;
  /// The receiver's CPU; and all of a message's way.
  [[nodiscard]] static TimeNs inbox_ns(const Form& form, double segments);
  [[nodiscard]] TimeNs landing_ns(const Hop& hop, double bytes) const;
  [[nodiscard]] TimeNs hop_ns(const Hop& hop, double bytes) const;

  const Scene& scene_;
  LinkFacts ideal_;                          ///< no link is quicker
  std::vector<std::vector<int32_t>> sites_;  ///< buildings: their ranks
  std::vector<int32_t> divisions_;           ///< as plan::Shape::sites
  collectives::Tree tree_;
  std::vector<std::vector<int32_t>> widest_;  ///< the tree's widest sites: their ranks
  /// By algorithm, leaders and way across, made when asked for.
  mutable std::map<std::tuple<const plan::Algorithm*, uint32_t, plan::Across>, Form> forms_;
};

}  // namespace isthmus::topology
