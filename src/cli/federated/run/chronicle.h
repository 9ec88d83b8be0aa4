// SPDX-License-Identifier: Apache-2.0
// What `isthmus federated run` prints: of each round a line for people or a JSON object on standard output, and news on standard error.
// Nothing fails.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/federated/run/messages.h"
#include "cli/federated/run/rules.h"
#include "federated/cohort_state.h"
#include "federated/rank_set.h"

namespace isthmus::cli {

/// A cluster in a round.
struct ClusterRecord {
  uint32_t cluster = 0;
  SumKind sum = SumKind::none;
  federated::RankSet members;          ///< who was to make the sum
  federated::RankSet survivors, late;  ///< who is in it; who was too late
  double weight_sum = 0;
  uint64_t model = 0;   ///< hash after the round
  double seconds = 0;   ///< from the first member's offer
  std::string failure;  ///< why there is no sum; empty if there is one
};

/// A round, at the coordinator.
struct RunRecord {
  federated::DriftReport drift;
  federated::RankSet members;  ///< who took part
  std::vector<ClusterRecord> clusters;
  uint32_t answers = 0;                         ///< members that told how it went
  double accuracy = 0;                          ///< mean over their clients; nothing where nobody answered
  uint64_t sent_bytes = 0, received_bytes = 0;  ///< of those members, all messages
  uint64_t stale = 0;                           ///< reports and contributions for another round, refused
  double seconds = 0;
};

/// A round, at a member.
struct MemberRecord {
  struct Part {
    uint32_t cluster = 0, clients = 0;
    SumKind sum = SumKind::none;
    bool counted = false;
    uint64_t model = 0;  ///< hash of the common model; 0: it trained alone
    std::string failure;
  };
  uint32_t round = 0;
  uint64_t epoch = 0;
  uint32_t reported = 0;  ///< clients
  std::vector<Part> parts;
  double accuracy = 0, seconds = 0;
  uint64_t sent_bytes = 0, received_bytes = 0;
};

class Chronicle {
 public:
  explicit Chronicle(bool json) : json_(json) {}

  void begin(const RunRules& rules, const std::vector<std::string>& addresses) const;
  void round(const RunRecord& record);
  void end(uint64_t rounds, double seconds, const std::string& why) const;

  void member_begin(uint32_t member, const RunTerms& terms, const std::string& images) const;
  void member_round(uint32_t member, const MemberRecord& record) const;

  /// To standard error.
  static void news(std::string_view text);

 private:
  bool json_;
  std::map<uint32_t, std::string> said_;  ///< by cluster: why there was no sum, last round; said again only where it is something else
};

}  // namespace isthmus::cli
