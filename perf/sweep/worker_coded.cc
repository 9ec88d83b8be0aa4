// SPDX-License-Identifier: Apache-2.0
// How a worker measures and verifies calls through a codec, each beside the exact call (see worker.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "stopwatch.h"
#include "worker.h"

namespace sweep {
namespace {

constexpr size_t kMostFaults = 8;  // that are spelled out

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

/// Each iteration is timed by itself, from when all ranks have met until this one's calls are complete.
void Worker::time_in_turn(const Case& c, bool in_place, Measurement& m) {
  Coded& coded = m.coded.emplace();
  std::vector<double> with_codec, exact;
  double cpu_s = 0;
  lap(c, in_place, 0, Way::coded);
  if (!options_.no_exact) lap(c, in_place, 0, Way::exact);
  team_.barrier();
  for (int iteration = 0; iteration < options_.iterations; ++iteration) {
    const Lap own = lap(c, in_place, iteration, Way::coded);
    with_codec.push_back(own.seconds);
    cpu_s += own.cpu_s;
    if (!options_.no_exact) exact.push_back(lap(c, in_place, iteration, Way::exact).seconds);
  }
  m.time_s = average(mean(with_codec));
  m.cpu_s = team_.reduce(thread_ == 0 ? cpu_s / options_.iterations : 0, Combine::sum);
  collect_iterations(std::span(with_codec).subspan(static_cast<size_t>(options_.skip_iterations)), m);
  if (!options_.no_exact) conclude_exact(c, exact, coded);
  ask(coded);
}

void Worker::conclude_exact(const Case& c, std::span<const double> seconds, Coded& coded) {
  coded.exact_time_s = average(mean(seconds));
  coded.exact_algbw = algbw(c.bytes(), *coded.exact_time_s);
  coded.exact_busbw = busbw(coded.exact_algbw);
  Measurement beside;
  collect_iterations(seconds.subspan(static_cast<size_t>(options_.skip_iterations)), beside);
  coded.exact_seconds = std::move(beside.iterations);
}

/// One iteration, in seconds per call.
Worker::Lap Worker::lap(const Case& c, bool in_place, int iteration, Way way) {
  if (in_place) restore(c, iteration);
  meet();
  const Stopwatch watch;
  iterate(c, in_place, iteration, way);
  const double called_s = watch.seconds();
  complete();
  const double calls = options_.aggregated;
  return {.seconds = (options_.report_cputime ? called_s : watch.seconds()) / calls, .cpu_s = watch.cpu_seconds() / calls};
}

/// In place, the result of one call would be the input of the next, and grow until it is infinite: the elements that no call changes,
/// those for calls out of place, are put there again.
void Worker::restore(const Case& c, int iteration) {
  for (int at = 0; at < options_.aggregated; ++at) {
    const size_t begin = static_cast<size_t>(options_.unalign) * bytes_of(c.type) + offset_bytes(c, iteration, at);
    for (const Rank& rank : ranks_) std::memcpy(rank.recv + begin, rank.send + begin, c.bytes());
  }
}

/// What the library did with the latest call that went through a codec.
void Worker::ask(Coded& coded) {
  double sent = 0;
  isthmusCompressionInfo_t info = ISTHMUS_COMPRESSION_INFO_INITIALIZER;
  for (const Rank& rank : ranks_) {
    check(isthmusCommGetCompressionInfo(rank.comm, &info), "isthmusCommGetCompressionInfo");
    sent = std::max(sent, static_cast<double>(info.sentBytes));
  }
  sent = team_.reduce(sent, Combine::max);
  coded.codec = info.compressed != 0 ? info.codec : options_.codec;
  if (info.compressed == 0) return;
  coded.algorithm = info.algorithm;
  coded.predicted = info.predictedError;
  coded.wire_bytes = sent;
}

double Worker::verify_coded(const Case& c, bool in_place, Coded& coded) {
  double wrong = 0;
  for (int run = 0; run < options_.checks && wrong == 0; ++run) {
    prepare(c, in_place, ++seed_);
    start(c, in_place, 0, Way::coded);
    complete();
    if (spoil_pending_ && c.count > 0) spoil(c, in_place);
    const Outcome outcome = examine(c, in_place, seed_, coded);
    const std::vector<std::string> found = faults(outcome);
    report_faults(c, in_place, found);
    wrong = static_cast<double>(found.size());
    if (!(outcome.nmse <= coded.nmse.value_or(-1))) coded.nmse = outcome.nmse;  // the worst; NaN is
    coded.nmse_bound = outcome.bound;
  }
  return wrong;
}

/// The same on all workers.
Outcome Worker::examine(const Case& c, bool in_place, uint64_t seed, const Coded& coded) {
  const int ranks = job_.total_ranks();
  const size_t count = collective_.recv_count(c.count, ranks);
  const bool scattered = collective_.shape == Shape::scatter;  // every rank has another part, and nothing to compare
  Deviation sums;
  double lowest = HUGE_VAL, highest = -HUGE_VAL;
  for (Rank& rank : ranks_) {
    const Call call = call_of(rank, c, in_place, 0);
    const size_t first = collective_.received_from(rank.rank, ranks, c.root, c.count);
    const Deviation own = deviation(recipe_of(c, seed), first, count, call.recv);
    sums.error += own.error;
    sums.energy += own.energy;
    const double print = fingerprint({static_cast<const std::byte*>(call.recv), scattered ? 0 : c.recv_bytes});
    lowest = std::min(lowest, print);
    highest = std::max(highest, print);
  }
  sums = {.error = team_.reduce(sums.error, Combine::sum), .energy = team_.reduce(sums.energy, Combine::sum)};
  const Origin origin = {.codec = coded.codec,
                         .predicted = coded.predicted,
                         .type = c.type,
                         .op = c.op,
                         .ranks = ranks,
                         .elements = scattered ? count * static_cast<size_t>(ranks) : count};
  lowest = team_.reduce(lowest, Combine::min);
  highest = team_.reduce(highest, Combine::max);
  return {.nmse = sums.nmse(),
          .bound = nmse_bound(origin),
          .alike = lowest == highest,
          .touched = team_.reduce(count_touched(c, in_place, seed), Combine::sum)};
}

void Worker::report_faults(const Case& c, bool in_place, const std::vector<std::string>& found) {
  for (const std::string& fault : found) {
    if (tally_.faults.size() == kMostFaults) tally_.faults.emplace_back("and more");
    if (tally_.faults.size() > kMostFaults) return;
    tally_.faults.push_back(fmt::format("{} bytes of {}, {}, {}: {}", c.bytes(), name_of(c.type), name_of(c.op),
                                        in_place ? "in place" : "out of place", fault));
  }
}

}  // namespace sweep
