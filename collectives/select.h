// SPDX-License-Identifier: Apache-2.0
// Which algorithm serves a call: the user's choice, else the first matching rule of the user's table, else what was planned for the job,
// else a hierarchy where some ranks are close to each other and others are not, else the first matching rule of the built-in table. Pure,
// so all ranks of a communicator choose alike. A process makes one Selector; each communicator narrows it to its Choices, which answer
// every call. Making a selector fails on names and numbers that no algorithm has, and says which there are.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/algorithm.h"
#include "plan/rules.h"

namespace isthmus::collectives {

struct Choice {
  const plan::Algorithm* algorithm = nullptr;
  uint32_t segments = 1;
  uint32_t leaders = 0;  ///< of each site; 0: as many as the smallest has
  plan::Across across = plan::Across::direct;
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// A planner's choice for some sizes.
struct PlannedRange {
  Collective collective = Collective::allreduce;
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;  ///< of the larger buffer; max inclusive
  Choice choice;
};

/// Who decided.
enum class Origin : uint8_t { forced, users_rules, planned, sites, built_in };
/// For logs: "ISTHMUS_ALGO", "the plan", ...
std::string_view name_of(Origin origin);

/// A choice, and for which sizes the same word decides.
struct Decision {
  Choice choice;
  Origin origin = Origin::built_in;
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;
};

/// The rules that concern one communicator.
class Choices {
 public:
  /// The choice for a call whose larger buffer has `bytes`. Fails when the algorithm that the user forced does not serve so many ranks,
  /// and for send/recv, which has no algorithms.
  [[nodiscard]] Result<Decision> decide(Collective collective, uint64_t bytes) const;
  [[nodiscard]] Result<Choice> choose(Collective collective, uint64_t bytes) const;

 private:
  friend class Selector;
  void add_hierarchies();

  int32_t ranks_ = 1;
  std::array<std::vector<Decision>, kCollectives> ranges_;      ///< the first that holds the bytes wins
  std::array<const plan::Algorithm*, kCollectives> refused_{};  ///< forced, but not for so many ranks
};

class Selector {
 public:
  /// `forced` is Settings::algorithm: "ring" for every collective that has it, or a list such as "allreduce:ring/8,broadcast:binomial"
  /// (after the slash: segments, then leaders, then plan::Across by name: "hierarchy/4/0/ring"); "" forces nothing. `rules` is the text of
  /// the user's rule table, "" for none.
  static Result<Selector> make(std::string_view forced, std::string_view rules = {});

  /// What concerns a communicator of `ranks` ranks that are `reach` apart. `sites` as in plan::Shape. `planned` goes before the built-in
  /// rules and hierarchies, after what the user says.
  [[nodiscard]] Choices narrow(plan::Reach reach, int32_t ranks, std::span<const int32_t> sites = {},
                               std::span<const PlannedRange> planned = {}) const;

 private:
  struct ResolvedRule {
    plan::Rule rule;
    const plan::Algorithm* algorithm;
  };

  Status force(std::string_view word);
  Status add_rules(std::string_view text, std::string_view origin);

  std::array<Choice, kCollectives> forced_{};
  std::vector<ResolvedRule> rules_;  ///< the user's, then the built-in ones
  size_t users_rules_ = 0;           ///< how many of them are the user's
};

/// How a call whose elements travel as `codec` is carried out. Homomorphic codecs: hierarchy if some ranks are close and others are not
/// (`sites` as in plan::Shape), else direct, above 32 ranks halving. Others: decoding at each block's owner. Segments make cells of 32 to
/// 64 Ki elements; `elements` are those of the larger buffer. `forced` is "", or words as for Selector::make that name compressed
/// algorithms. Pure, so all ranks choose alike. Fails (invalid_argument) on names and numbers that no compressed algorithm has, where
/// the collective has none of the names that are meant for it, on an algorithm that has no use for the codec, and where it has none at all.
Result<Choice> choose_compressed(Collective collective, const codec::Codec& codec, int32_t ranks, std::span<const int32_t> sites,
                                 uint64_t elements, std::string_view forced = {});

/// The built-in rule table, as text that plan::parse_rules reads. Written by perf/tune.
std::string_view default_rules();

/// Whether it is in the range that the algorithm's tunable allows (1 segment, 0 leaders and directly across always are).
bool allows_segments(const plan::Algorithm& algorithm, uint32_t segments);
bool allows_leaders(const plan::Algorithm& algorithm, uint32_t leaders);
bool allows_across(const plan::Algorithm& algorithm, plan::Across across);

}  // namespace isthmus::collectives
