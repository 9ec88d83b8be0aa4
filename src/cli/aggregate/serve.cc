// SPDX-License-Identifier: Apache-2.0
// serve.h: one thread, one loop over the aggregator's connections and a descriptor of signals.
#include "cli/aggregate/serve.h"

#include <fmt/format.h>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/ending.h"
#include "cli/json_text.h"
#include "federated/aggregator.h"
#include "federated/waiting.h"

namespace isthmus::cli {
namespace {

using federated::Aggregator;
using federated::LateArrival;
using federated::RoundReport;
using Json = nlohmann::ordered_json;

constexpr double kMiB = 1 << 20;

double seconds(TimeNs duration) { return static_cast<double>(duration) / kSecondNs; }

std::string ranges(const federated::RankSet& ranks) {
  const std::string text = number_ranges(federated::ranks_of(ranks));
  return text.empty() ? "-" : text;
}

/// Lines for people, or one JSON object a line.
class Voice {
 public:
  Voice(bool json, uint32_t ranks) : json_(json), ranks_(ranks) {}

  void begin(const Aggregator& aggregator, const ServeWords& words, const federated::AggregatorOptions& options) const {
    std::vector<std::string> addresses;
    for (const transport::Address& address : aggregator.addresses()) addresses.push_back(transport::to_string(address));
    const std::string codec = to_text(options.thc->config);
    const uint32_t quorum = options.quorum == 0 ? ranks_ : options.quorum;
    if (json_) {
      return line({{"listening", addresses},
                   {"ranks", ranks_},
                   {"quorum", quorum},
                   {"deadline_s", seconds(options.deadline_ns)},
                   {"limit_s", seconds(options.limit_ns)},
                   {"codec", codec},
                   {"max_elements", aggregator.max_elements()}});
    }
    const std::vector<std::string_view> views(addresses.begin(), addresses.end());
    fmt::print("# listening at {} for {} ranks: quorum {}, deadline {}, limit {}\n", join(views, ", "), ranks_, quorum,
               duration_text(options.deadline_ns), duration_text(options.limit_ns));
    fmt::print("# codec {}; vectors of up to {} elements ({} of memory)\n", codec, aggregator.max_elements(), words.memory);
    fmt::print("#{:>7} {:>12} {:>9} {:<12} {:<12} {:>10} {:>10} {:>9}\n", "round", "elements", "ranks", "late", "missing", "MiB in",
               "MiB out", "seconds");
    std::fflush(stdout);
  }

  void round(const RoundReport& report) const {
    const federated::RankSet missing = everybody() & ~report.contributors & ~report.late;
    if (json_) {
      Json one = {{"round", report.round},
                  {"elements", report.signature.count},
                  {"type", name_of(report.signature.type)},
                  {"op", name_of(report.signature.op)},
                  {"contributors", federated::ranks_of(report.contributors)},
                  {"late", federated::ranks_of(report.late)},
                  {"missing", federated::ranks_of(missing)},
                  {"received_bytes", report.received_bytes},
                  {"result_bytes", report.result_bytes},
                  {"editions", report.editions},
                  {"epoch", report.epoch},
                  {"weight_sum", report.weight_sum},
                  {"seconds", seconds(report.duration_ns)}};
      if (!report.failure.ok()) one["failure"] = report.failure.text();
      return line(one);
    }
    fmt::print("{:>8} {:>12} {:>9} {:<12} {:<12} {:>10.3f} {:>10.3f} {:>9.4f}\n", report.round, report.signature.count,
               fmt::format("{}/{}", report.contributors.count(), ranks_), ranges(report.late), ranges(missing),
               static_cast<double>(report.received_bytes) / kMiB, static_cast<double>(report.result_bytes) / kMiB,
               seconds(report.duration_ns));
    if (!report.failure.ok()) fmt::print("# failed: {}\n", report.failure.text());
    std::fflush(stdout);
  }

  void late(const LateArrival& arrival) const {
    if (json_) return line({{"late_arrival", {{"round", arrival.round}, {"rank", arrival.rank}, {"served", arrival.served}}}});
    fmt::print("# rank {} came late for round {} and {}\n", arrival.rank, arrival.round,
               arrival.served ? "was told how it ended" : "it is not kept any longer");
    std::fflush(stdout);
  }

  void end(const Aggregator::Counters& counters, uint64_t rounds, uint64_t failed) const {
    if (json_) {
      return line({{"end",
                    {{"rounds", rounds},
                     {"failed", failed},
                     {"late", counters.late},
                     {"received_bytes", counters.received_bytes},
                     {"sent_bytes", counters.sent_bytes},
                     {"connections",
                      {{"accepted", counters.accepted},
                       {"refused", counters.refused},
                       {"timed_out", counters.timed_out + counters.evicted},
                       {"withdrawn", counters.withdrawn},
                       {"duplicates", counters.duplicates},
                       {"misfits", counters.misfits},
                       {"malformed", counters.malformed},
                       {"lost", counters.lost},
                       {"stale", counters.stale},
                       {"left", counters.left}}}}}});
    }
    fmt::print("# {} rounds, {} failed; {} contributions too late; {:.3f} MiB in, {:.3f} MiB out\n", rounds, failed, counters.late,
               static_cast<double>(counters.received_bytes) / kMiB, static_cast<double>(counters.sent_bytes) / kMiB);
    fmt::print("# connections: {} accepted, {} refused, {} timed out, {} duplicates, {} misfits, {} malformed, {} lost, {} left\n",
               counters.accepted, counters.refused, counters.timed_out + counters.evicted, counters.duplicates, counters.misfits,
               counters.malformed, counters.lost, counters.left);
    std::fflush(stdout);
  }

 private:
  static void line(const Json& json) {
    fmt::print("{}\n", json_text(json));
    std::fflush(stdout);
  }
  [[nodiscard]] federated::RankSet everybody() const {
    federated::RankSet all;
    for (uint32_t rank = 0; rank < ranks_; ++rank) all.set(rank);
    return all;
  }

  bool json_;
  uint32_t ranks_;
};

Result<federated::AggregatorOptions> options_of(const ServeWords& words, const Settings& settings) {
  federated::AggregatorOptions options;
  ISTHMUS_ASSIGN(const codec::ThcConfig config, codec_of(words.meeting));
  ISTHMUS_ASSIGN(options.thc, codec::make_thc(config, words.meeting.ranks));
  options.quorum = words.quorum;
  ISTHMUS_ASSIGN(options.deadline_ns, duration_of("--deadline", words.deadline));
  ISTHMUS_ASSIGN(options.limit_ns, duration_of("--limit", words.limit));
  ISTHMUS_ASSIGN(options.memory_bytes, count_of("--memory", words.memory));
  ISTHMUS_ASSIGN(const uint64_t chunk, count_of("--chunk", words.chunk));
  options.chunk_elements = chunk > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(chunk);
  options.kept_rounds = words.keep;
  options.rounds = words.rounds;
  options.group = group_of(words.meeting);
  options.epoch = words.meeting.epoch;
  ISTHMUS_ASSIGN(options.masking, masking_of(words.meeting));
  options.peer_timeout_ns = settings.peer_timeout_ns;
  options.target = &kernels::select_target(settings.simd);
  return options;
}

struct Tally {
  uint64_t rounds = 0, failed = 0;
  int signal = 0;
};

Tally run(Aggregator& aggregator, const Voice& voice, const Fd& signals) {
  Tally tally;
  std::vector<transport::Wait> waits;
  for (bool alive = true; alive;) {
    alive = aggregator.poll(federated::clock_now());
    for (const RoundReport& report : aggregator.take_reports()) {
      voice.round(report);
      ++tally.rounds;
      tally.failed += report.failure.ok() ? 0 : 1;
    }
    for (const LateArrival& arrival : aggregator.take_late_arrivals()) voice.late(arrival);
    if (!alive) break;
    if (const int signal = pending_signal(signals); signal != 0) {
      if (tally.signal != 0) break;  // asked twice
      tally.signal = signal;
      aggregator.stop(strsignal(signal), federated::clock_now());
      continue;
    }
    waits.assign(1, {.fd = signals.get()});
    aggregator.waits(waits);
    federated::wait_until(waits, aggregator.due());
  }
  return tally;
}

}  // namespace

int serve(const ServeWords& words) {
  auto premises = prepare(words.meeting);
  if (!premises.ok()) return complain(premises.status());
  auto options = options_of(words, (*premises)->settings);
  if (!options.ok()) return complain(options.status());
  const Fd signals = ending_signals();
  auto aggregator = Aggregator::open(*(*premises)->surroundings, (*premises)->key, *options, (*premises)->addresses);
  if (!aggregator.ok()) return complain(aggregator.status());
  const Voice voice(words.meeting.json, words.meeting.ranks);
  voice.begin(**aggregator, words, *options);
  const Tally tally = run(**aggregator, voice, signals);
  voice.end((*aggregator)->counters(), tally.rounds, tally.failed);
  if (tally.signal != 0 && words.rounds != 0 && tally.rounds < words.rounds) return 128 + tally.signal;
  return tally.failed > 0 && words.rounds != 0 ? 1 : 0;
}

}  // namespace isthmus::cli
