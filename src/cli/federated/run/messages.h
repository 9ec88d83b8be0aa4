// SPDX-License-Identifier: Apache-2.0
// What the coordinator of `isthmus federated run` and its members say to each other, as bytes. Used by door.h and by member.h. Pure.
// Decoding fails (remote_error) on bytes that neither writes; counts are checked against what is there, never believed.
//
//   member                                          coordinator
//   join: what images it holds                  ->
//                                               <-  terms: the whole scenario; or refusal
//   ready                                       ->
//                                               <-  call: round, centres, clusters of its clients
//   reports: those of its clients that drifted  ->
//                                               <-  plan: epoch, clusters, whose sums it takes part in, models that it lacks
//   [sums, with the clusters' aggregators]
//   result: models' hashes, accuracy, bytes     ->
//                                               <-  end
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/link.h"
#include "cli/federated/episode.h"
#include "cli/federated/run/rules.h"
#include "federated/group_rules.h"
#include "federated/representation.h"

namespace isthmus::cli {

inline constexpr uint16_t kRunVersion = 1;
/// Longest messages: of a member that has not joined, and texts.
inline constexpr size_t kMaxRunJoinBytes = 64, kMaxRunTextBytes = 1024;

enum class RunType : uint8_t { join = 64, ready, reports, result, leave, terms = 80, refusal, call, plan, beat, end };

struct RunJoin {
  uint16_t version = kRunVersion;
  uint64_t images = 0;  ///< hash of what it draws its clients' data from
};

/// How a cluster's members make their sums.
enum class SumKind : uint8_t { none, plain, masked };

struct RunTerms {
  uint32_t members = 0, clients_each = 0;
  EpisodeRules episode;  ///< of all clients
  ModelKind model = ModelKind::softmax;
  TrainRules train;
  uint64_t seed = 0;
  uint32_t warm_up = 0;  ///< rounds before clients report, which make the probe where one is needed
  TimeNs deadline_ns = 0;
  federated::GroupRules masked, plain;              ///< of sums of either kind
  std::vector<uint16_t> masked_ports, plain_ports;  ///< by cluster; none where there are no such sums
};

/// What members need to know of the rules, and where the clusters' aggregators listen.
RunTerms terms_of(const RunRules& rules, std::vector<uint16_t> masked_ports, std::vector<uint16_t> plain_ports);

struct RunCall {
  uint32_t round = 0;
  bool looks = false;              ///< clients report if they have to
  std::vector<float> centres;      ///< rows
  std::vector<uint32_t> clusters;  ///< of this member's clients
  std::vector<float> probe;        ///< a model, where one is needed and not known
};

struct RunReports {
  struct One {
    uint64_t client = 0, samples = 0;
    std::vector<float> values;
  };
  struct Held {
    uint32_t cluster = 0;
    uint64_t model = 0;  ///< hash
  };
  uint32_t round = 0;
  federated::RepHeader header;
  std::vector<One> reports;
  std::vector<Held> held;  ///< models that it has
};

struct RunPlan {
  struct Part {
    uint32_t cluster = 0;
    SumKind sum = SumKind::none;
    uint64_t model = 0;         ///< hash of the model to begin with
    std::vector<float> values;  ///< the model; none: it is known
  };
  uint32_t round = 0;
  uint64_t epoch = 0;
  std::vector<uint32_t> clusters;  ///< of this member's clients
  std::vector<Part> parts;         ///< clusters that it has clients in
};

struct RunResult {
  struct Part {
    uint32_t cluster = 0;
    bool counted = false;  ///< its update is in the sum
    uint64_t model = 0;    ///< hash of the common model after the round; 0: none
  };
  uint32_t round = 0;
  std::vector<Part> parts;
  double accuracy = 0;  ///< mean over its clients, each of its model on its task
  uint64_t sent_bytes = 0, received_bytes = 0;
};

/// How it ended: empty if as planned.
struct RunEnd {
  std::string why;
};

bootstrap::SharedBytes encode(const RunJoin& join);
bootstrap::SharedBytes encode(const RunTerms& terms);
bootstrap::SharedBytes encode(const RunCall& call);
bootstrap::SharedBytes encode(const RunReports& reports);
bootstrap::SharedBytes encode(const RunPlan& plan);
bootstrap::SharedBytes encode(const RunResult& result);
bootstrap::SharedBytes encode(const RunEnd& end);

Result<RunJoin> decode_run_join(std::span<const std::byte> body);
Result<RunTerms> decode_run_terms(std::span<const std::byte> body);
Result<RunCall> decode_run_call(std::span<const std::byte> body);
Result<RunReports> decode_run_reports(std::span<const std::byte> body);
Result<RunPlan> decode_run_plan(std::span<const std::byte> body);
Result<RunResult> decode_run_result(std::span<const std::byte> body);
Result<RunEnd> decode_run_end(std::span<const std::byte> body);

}  // namespace isthmus::cli
