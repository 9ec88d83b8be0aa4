// SPDX-License-Identifier: Apache-2.0
// load.h.
#include "cli/aggregate/load.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "base/text.h"
#include "cli/aggregate/vectors.h"
#include "cli/json_text.h"
#include "federated/contributor.h"
#include "federated/group_sum.h"
#include "federated/waiting.h"

namespace isthmus::cli {
namespace {

using federated::Contributed;
using federated::Contributor;
using Json = nlohmann::ordered_json;

constexpr double kMiB = 1 << 20;
constexpr size_t kLeastChecked = 4096;  // below that, errors vary too much by draw to say anything
constexpr double kTolerance = 1.5;

struct Plan {
  Vectors vectors;
  federated::Signature signature;
  TimeNs delay_ns = 0;
  double weight = 1;
  federated::ContributorOptions options;
};

/// What became of one round.
struct Measured {
  Status status;
  Contributed result;
  double seconds = 0;
  double nmse = -1, expected_nmse = -1;  ///< below 0: unknown
  uint64_t hash = 0;                     ///< of the result's bytes

  [[nodiscard]] bool wrong() const { return nmse >= 0 && expected_nmse >= 0 && !(nmse <= kTolerance * expected_nmse); }
};

Result<DataType> type_of(const std::string& text) {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    if (text == name_of(type)) return type;
  return invalid_argument(fmt::format("--type {}: there are float, half and bfloat16", text));
}

Result<ReduceOp> op_of(const std::string& text) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
    if (text == name_of(op)) return op;
  return invalid_argument(fmt::format("--op {}: there are sum and avg", text));
}

Result<Plan> plan_of(const LoadWords& words, const Premises& premises) {
  Plan plan;
  ISTHMUS_ASSIGN(plan.vectors.draw, parse_draw(words.data));
  ISTHMUS_ASSIGN(plan.vectors.type, type_of(words.type));
  ISTHMUS_ASSIGN(plan.signature.op, op_of(words.op));
  ISTHMUS_ASSIGN(const uint64_t count, count_of("--count", words.count));
  ISTHMUS_ASSIGN(plan.delay_ns, duration_of("--delay", words.delay));
  ISTHMUS_ASSIGN(plan.options.call_timeout_ns, duration_of("--timeout", words.timeout));
  ISTHMUS_ASSIGN(plan.options.reach_timeout_ns, duration_of("--reach", words.reach));
  plan.vectors.seed = words.seed;
  plan.vectors.count = plan.signature.count = count;
  plan.signature.type = plan.vectors.type;
  plan.options.addresses = premises.addresses;
  plan.options.rank = words.rank;
  plan.options.ranks = words.meeting.ranks;
  plan.weight = words.weight;
  plan.options.group = group_of(words.meeting);
  plan.options.epoch = words.meeting.epoch;
  ISTHMUS_ASSIGN(plan.options.masking, masking_of(words.meeting));
  if (plan.options.group && (plan.vectors.type != DataType::float32 || plan.signature.op != ReduceOp::avg)) {
    return invalid_argument("cohorts make means of float: --type and --op are not for them");
  }
  plan.options.peer_timeout_ns = premises.settings.peer_timeout_ns;
  plan.options.target = &kernels::select_target(premises.settings.simd);
  if (words.meeting.codec.empty()) return plan;
  ISTHMUS_ASSIGN(const codec::ThcConfig config, codec_of(words.meeting));
  ISTHMUS_ASSIGN(plan.options.thc, codec::make_thc(config, words.meeting.ranks));
  return plan;
}

class Load {
 public:
  Load(const LoadWords& words, Plan plan, Contributor& contributor)
      : words_(words), plan_(std::move(plan)), contributor_(contributor), input_(plan_.vectors.of_rank(words.rank)) {
    output_.resize(input_.size());
    if (plan_.options.group) group_.emplace(federated::GroupOptions{.rules = *plan_.options.group}, plan_.options.masking);
  }

  Measured round() {
    if (plan_.delay_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(plan_.delay_ns));
    Measured measured;
    const TimeNs began_at = federated::clock_now();
    measured.status = group_ ? mean(began_at) : sum(began_at);
    measured.seconds = static_cast<double>(federated::clock_now() - began_at) / kSecondNs;
    if (!measured.status.ok()) return measured;
    measured.result = contributor_.result();
    measured.hash = hash_bytes(output_);
    if (words_.check && plan_.signature.count > 0) check(measured);
    return measured;
  }

  void head() const {
    if (words_.meeting.json) return;
    fmt::print("# rank {} of {}: {} of {} {}, {}, seed {}; codec {}\n", words_.rank, words_.meeting.ranks, words_.op, plan_.signature.count,
               words_.type, words_.data, words_.seed, to_text(contributor_.thc().config));
    fmt::print("#{:>7} {:>9} {:>6} {:>12} {:>12} {:>10} {:>10} {:>9}  {:<16}\n", "round", "ranks", "mine", "NMSE", "expected", "MiB out",
               "MiB in", "seconds", "result");
    std::fflush(stdout);
  }

  void tell(const Measured& one) const {
    words_.meeting.json ? tell_json(one) : tell_text(one);
    std::fflush(stdout);
  }

 private:
  Status sum(TimeNs began_at) {
    ISTHMUS_TRY(contributor_.begin({.in = input_.data(), .out = output_.data(), .signature = plan_.signature}, began_at));
    return federated::complete(contributor_);
  }

  Status mean(TimeNs began_at) {
    std::vector<float> x(plan_.signature.count);
    std::memcpy(x.data(), input_.data(), input_.size());
    ISTHMUS_TRY(group_->begin(x, plan_.weight, contributor_.thc(), contributor_.terms().chunk_elements, random_bytes));
    ISTHMUS_TRY(contributor_.begin(group_->contribution(), began_at));
    ISTHMUS_TRY(federated::complete(contributor_));
    const Contributed& made = contributor_.result();
    ISTHMUS_TRY(group_->finish(made.weight_sum, made.contributors[words_.rank], x));
    std::memcpy(output_.data(), x.data(), input_.size());
    return {};
  }

  void check(Measured& measured) {
    if (exact_.empty() || measured.result.contributors != exact_of_) exact_ = plan_.vectors.average(measured.result.contributors);
    exact_of_ = measured.result.contributors;
    const auto summands = static_cast<double>(exact_of_.count());
    measured.nmse = nmse(output_, plan_.signature.type, plan_.signature.op == ReduceOp::sum ? 1 / summands : 1, exact_);
    if (group_ && plan_.weight != 1) measured.nmse = -1;  // the exact mean has other weights
    if (group_ && (plan_.options.group->masked || plan_.weight != 1)) return;
    if (plan_.vectors.draw == Draw::lognormal || plan_.signature.count < kLeastChecked) return;
    const codec::Thc& thc = contributor_.thc();
    const bool same = plan_.vectors.draw == Draw::same;
    measured.expected_nmse = thc.rounding_error / (same ? summands : 1) + thc.clamp_error;
  }

  void tell_text(const Measured& one) const {
    if (!one.status.ok()) return fmt::print("# failed after {:.4f} s: {}\n", one.seconds, one.status.text());
    const auto number = [](double value) { return value < 0 ? std::string("-") : fmt::format("{:.4g}", value); };
    fmt::print("{:>8} {:>9} {:>6} {:>12} {:>12} {:>10.3f} {:>10.3f} {:>9.4f}  {:016x}{}\n", one.result.round,
               fmt::format("{}/{}", one.result.contributors.count(), words_.meeting.ranks),
               one.result.contributors[words_.rank] ? "in" : "late", number(one.nmse), number(one.expected_nmse),
               static_cast<double>(one.result.sent_bytes) / kMiB, static_cast<double>(one.result.received_bytes) / kMiB, one.seconds,
               one.hash, one.wrong() ? "  WRONG" : "");
  }

  void tell_json(const Measured& one) const {
    Json json = {{"rank", words_.rank}, {"seconds", one.seconds}};
    if (!one.status.ok()) {
      json["failure"] = one.status.text();
    } else {
      json["round"] = one.result.round;
      json["contributors"] = federated::ranks_of(one.result.contributors);
      json["late"] = !one.result.contributors[words_.rank];
      json["late_ranks"] = federated::ranks_of(one.result.late);
      json["nmse"] = one.nmse < 0 ? Json(nullptr) : Json(one.nmse);
      json["expected_nmse"] = one.expected_nmse < 0 ? Json(nullptr) : Json(one.expected_nmse);
      json["right"] = !one.wrong();
      if (group_) json["weight_sum"] = federated::weight_of(one.result.weight_sum);
      json["sent_bytes"] = one.result.sent_bytes;
      json["received_bytes"] = one.result.received_bytes;
      json["result"] = fmt::format("{:016x}", one.hash);
    }
    fmt::print("{}\n", json_text(json));
  }

  const LoadWords& words_;
  Plan plan_;
  Contributor& contributor_;
  std::vector<std::byte> input_, output_;
  std::optional<federated::GroupSum> group_;
  std::vector<double> exact_;
  federated::RankSet exact_of_;
};

}  // namespace

int load(const LoadWords& words) {
  auto premises = prepare(words.meeting);
  if (!premises.ok()) return complain(premises.status());
  auto plan = plan_of(words, **premises);
  if (!plan.ok()) return complain(plan.status());
  auto contributor = Contributor::make(*(*premises)->surroundings, (*premises)->key, plan->options);
  if (!contributor.ok()) return complain(contributor.status());
  (*contributor)->connect(federated::clock_now());
  if (const Status reached = federated::complete(**contributor); !reached.ok()) return complain(reached);
  if (const Status fits = (*contributor)->fits(plan->signature.count); !fits.ok()) return complain(fits);
  Load load(words, std::move(*plan), **contributor);
  load.head();
  bool failed = false;
  for (uint64_t round = 0; round < words.rounds; ++round) {
    const Measured one = load.round();
    load.tell(one);
    failed = failed || !one.status.ok() || one.wrong();
    if ((*contributor)->ended()) break;
    if (!one.status.ok() && !(*contributor)->connected()) break;  // whoever wants to go on starts it again
  }
  (*contributor)->leave();
  return failed ? 1 : 0;
}

}  // namespace isthmus::cli
