// SPDX-License-Identifier: Apache-2.0
// One thread of a sweep (see worker.h).
#include "worker.h"

#include <algorithm>
#include <cstring>

#include "stopwatch.h"

namespace sweep {
namespace {

constexpr int kGuardPattern = 0xa5;

}  // namespace

Worker::Worker(Job& job, Team& team, Report& report, Watchdog& watchdog, int thread)
    : job_(job),
      team_(team),
      report_(report),
      watchdog_(watchdog),
      options_(job.options()),
      collective_(job.collective()),
      thread_(thread),
      ranks_(std::span(job.ranks())
                 .subspan(static_cast<size_t>(thread) * static_cast<size_t>(options_.ranks_per_thread),
                          static_cast<size_t>(options_.ranks_per_thread))),
      spoil_pending_(options_.inject_wrong),
      asked_(options_.coded() ? Way::coded : Way::exact),
      compression_(job.compression()) {}

Tally Worker::tally() const {
  Tally tally = tally_;
  for (const auto& [what, calls] : calls_) {
    const auto& [type, bytes, way] = what;
    tally.calls.push_back({.type = std::string(name_of(type)), .bytes = bytes, .coded = way == Way::coded, .calls = calls});
  }
  return tally;
}

void Worker::run() {
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) run_cycle();
}

void Worker::run_cycle() {
  const std::vector<Op> ops = collective_.reduces ? options_.ops : std::vector<Op>{Op::none};
  std::vector<int> roots = {collective_.rooted ? options_.root : -1};
  if (collective_.rooted && options_.root == -1) {
    roots.clear();
    for (int root = 0; root < job_.total_ranks(); ++root) roots.push_back(root);
  }
  for (ncclDataType_t type : options_.types) {
    for (Op op : ops) {
      for (int root : roots) sweep(type, op, root);
    }
  }
}

Case Worker::make_case(ncclDataType_t type, Op op, int root, size_t bytes) const {
  const size_t element = bytes_of(type);
  const size_t count = collective_.call_count(bytes, element, job_.total_ranks());
  return {.type = type,
          .op = op,
          .root = root,
          .count = count,
          .send_bytes = collective_.send_count(count, job_.total_ranks()) * element,
          .recv_bytes = collective_.recv_count(count, job_.total_ranks()) * element};
}

void Worker::sweep(ncclDataType_t type, Op op, int root) {
  fill(type, op);
  within_limit([&] { team_.barrier(); });
  warm_up(type, op, root);
  for (uint64_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes = options_.next(bytes)) {
    const Case c = make_case(type, op, root, bytes);
    if (thread_ == 0) {
      report_.begin(
          {.bytes = c.bytes(), .count = c.count, .type = std::string(name_of(type)), .op = std::string(name_of(op)), .root = root});
    }
    report_half(c, false);
    if (collective_.in_place) {
      report_half(c, true);
    } else if (thread_ == 0) {
      report_.half(true, nullptr);
    }
    if (thread_ == 0) report_.end();
  }
}

/// Numbers of the type everywhere, so that nothing is timed on whatever an earlier type left there.
void Worker::fill(ncclDataType_t type, Op op) {
  const Recipe recipe = {.type = type, .op = op, .seed = 0, .ranks = job_.total_ranks(), .data = options_.data};
  const size_t start = static_cast<size_t>(options_.unalign) * bytes_of(type);
  for (const Rank& rank : ranks_) {
    for (std::byte* buffer : {rank.send, rank.recv}) {
      generate(recipe, rank.rank, 0, options_.max_bytes / bytes_of(type), buffer + start);
    }
  }
}

void Worker::warm_up(ncclDataType_t type, Op op, int root) {
  if (options_.warmup_iterations == 0) return;
  const auto run = [&](uint64_t bytes) {
    const Case c = make_case(type, op, root, bytes);
    within_limit([&] {
      for (int iteration = 0; iteration < options_.warmup_iterations; ++iteration) iterate(c, false, iteration, asked_);
      complete();
    });
  };
  for (uint64_t bytes = std::max<uint64_t>(options_.min_bytes, 1); bytes < options_.max_bytes; bytes *= 2) run(bytes);
  run(options_.max_bytes);
}

void Worker::report_half(const Case& c, bool in_place) {
  const Measurement measurement = measure(c, in_place);
  tally_.wrong += measurement.wrong.value_or(0);
  tally_.busbw_sum += measurement.busbw;
  ++tally_.measurements;
  if (thread_ == 0) report_.half(in_place, &measurement);
}

Measurement Worker::measure(const Case& c, bool in_place) {
  Measurement measurement;
  within_limit([&] {
    options_.coded() ? time_in_turn(c, in_place, measurement) : time(c, in_place, measurement);
    measurement.algbw = algbw(c.bytes(), measurement.time_s);
    measurement.busbw = busbw(measurement.algbw);
    if (options_.checks == 0) return;
    measurement.wrong = options_.coded() ? verify_coded(c, in_place, *measurement.coded) : verify(c, in_place);
  });
  return measurement;
}

void Worker::time(const Case& c, bool in_place, Measurement& measurement) {
  std::vector<double> times;
  times.reserve(static_cast<size_t>(options_.iterations));
  iterate(c, in_place, 0, Way::exact);
  complete();
  line_up();

  const Stopwatch watch;
  double called_s = 0;
  double previous_s = 0;
  for (int iteration = 0; iteration < options_.iterations; ++iteration) {
    iterate(c, in_place, iteration, Way::exact);
    called_s = watch.seconds();
    if (!completes_each()) continue;
    if (options_.per_iteration) complete();
    const double now_s = watch.seconds();
    times.push_back((now_s - previous_s) / options_.aggregated);
    previous_s = now_s;
  }
  complete();
  const double total_s = watch.seconds();
  const double cpu_s = watch.cpu_seconds();

  const double operations = static_cast<double>(options_.iterations) * options_.aggregated;
  measurement.time_s = average((options_.report_cputime ? called_s : total_s) / operations);
  measurement.cpu_s = team_.reduce(thread_ == 0 ? cpu_s / operations : 0, Combine::sum);
  if (!times.empty()) collect_iterations(std::span(times).subspan(static_cast<size_t>(options_.skip_iterations)), measurement);
}

double Worker::average(double seconds) {
  switch (options_.average) {
    case Average::rank0:
      return team_.reduce(thread_ == 0 && ranks_.front().rank == 0 ? seconds : 0, Combine::sum);
    case Average::min:
      return team_.reduce(seconds, Combine::min);
    case Average::max:
      return team_.reduce(seconds, Combine::max);
    case Average::mean:
      break;
  }
  return team_.reduce(seconds, Combine::sum) / team_.members();
}

void Worker::collect_iterations(std::span<const double> times, Measurement& measurement) {
  const std::vector<double> all = team_.gather(times, Combine::max);
  measurement.iterations.assign(times.size(), 0);
  for (int process = 0; process < team_.processes(); ++process) {
    const auto slice = std::span(all).subspan(static_cast<size_t>(process) * times.size(), times.size());
    measurement.slices.emplace_back(slice.begin(), slice.end());
    for (size_t at = 0; at < slice.size(); ++at) measurement.iterations[at] = std::max(measurement.iterations[at], slice[at]);
  }
}

// --- calls ---------------------------------------------------------------------------------------------------------------------------

/// A barrier of processes leaves them up to a scheduler's tick apart, which would be most of a short measurement; an exchange of
/// one number leaves them a message apart.
void Worker::line_up() {
  team_.barrier();
  meet();
}

void Worker::meet() {
  check(ncclGroupStart(), "ncclGroupStart");
  for (Rank& rank : ranks_) {
    check(ncclAllReduce(&rank.token, &rank.token, 1, ncclInt32, ncclMax, rank.comm, rank.stream), "ncclAllReduce (lining up)");
  }
  check(ncclGroupEnd(), "ncclGroupEnd (lining up)");
  complete();
}

/// Where in the buffers an iteration's call works: each in the next place.
size_t Worker::offset_bytes(const Case& c, int iteration, int aggregated) const {
  const size_t places = options_.reuse_buffers || c.bytes() == 0 ? 1 : options_.max_bytes / c.bytes();
  const auto number = static_cast<size_t>(iteration) * static_cast<size_t>(options_.aggregated) + static_cast<size_t>(aggregated);
  return number % places * c.bytes();
}

void Worker::iterate(const Case& c, bool in_place, int iteration, Way way) {
  if (options_.aggregated > 1) check(ncclGroupStart(), "ncclGroupStart");
  for (int at = 0; at < options_.aggregated; ++at) start(c, in_place, offset_bytes(c, iteration, at), way);
  if (options_.aggregated > 1) check(ncclGroupEnd(), "ncclGroupEnd (aggregated operations)");
  if (options_.blocking != 0) complete();
  if (options_.blocking == 1) team_.barrier();
}

void Worker::start(const Case& c, bool in_place, size_t offset_bytes, Way way) {
  ++calls_[{c.type, c.bytes(), way}];
  if (ranks_.size() > 1) check(ncclGroupStart(), "ncclGroupStart");
  for (Rank& rank : ranks_) start_rank(rank, c, in_place, offset_bytes, way);
  if (ranks_.size() > 1) check(ncclGroupEnd(), collective_.title.data());
}

void Worker::start_rank(Rank& rank, const Case& c, bool in_place, size_t offset_bytes, Way way) {
  Call call = call_of(rank, c, in_place, offset_bytes);
  if (c.op == Op::mulsum) {
    uint64_t scalar = 0;
    encode_premul_scalar(c.type, rank.rank, &scalar);
    check(ncclRedOpCreatePreMulSum(&call.op, &scalar, c.type, ncclScalarHostImmediate, rank.comm), "ncclRedOpCreatePreMulSum");
  }
  check(way == Way::coded ? collective_.start_coded(call, compression_) : collective_.start(call), collective_.title.data());
  if (c.op == Op::mulsum) check(ncclRedOpDestroy(call.op, rank.comm), "ncclRedOpDestroy");
}

Call Worker::call_of(Rank& rank, const Case& c, bool in_place, size_t offset_bytes) const {
  const size_t element = bytes_of(c.type);
  const size_t start = static_cast<size_t>(options_.unalign) * element + offset_bytes;
  std::byte* send = (in_place ? rank.recv + collective_.send_offset(rank.rank, c.count) * element : rank.send) + start;
  std::byte* recv = rank.recv + (in_place ? collective_.recv_offset(rank.rank, c.count) * element : 0) + start;
  const bool built_in = c.op != Op::none && c.op != Op::mulsum;
  return {.send = send,
          .recv = recv,
          .count = c.count,
          .type = c.type,
          .op = built_in ? static_cast<ncclRedOp_t>(static_cast<int>(c.op) - static_cast<int>(Op::sum)) : ncclSum,
          .root = c.root,
          .rank = rank.rank,
          .ranks = job_.total_ranks(),
          .comm = rank.comm,
          .stream = rank.stream};
}

void Worker::complete() {
  if (options_.null_stream) return;
  for (const Rank& rank : ranks_) check(isthmusStreamSynchronize(rank.stream), "isthmusStreamSynchronize");
}

// --- verification ----------------------------------------------------------------------------------------------------------------

double Worker::verify(const Case& c, bool in_place) {
  double wrong = 0;
  for (int run = 0; run < options_.checks && wrong == 0; ++run) {
    prepare(c, in_place, ++seed_);
    start(c, in_place, 0, Way::exact);
    complete();
    if (spoil_pending_ && c.count > 0) spoil(c, in_place);
    wrong = team_.reduce(count_errors(c, in_place, seed_), Combine::sum);
  }
  return wrong;
}

Recipe Worker::recipe_of(const Case& c, uint64_t seed) const {
  return {.type = c.type, .op = c.op, .seed = seed, .ranks = job_.total_ranks(), .data = options_.data};
}

void Worker::prepare(const Case& c, bool in_place, uint64_t seed) {
  for (Rank& rank : ranks_) {
    const Call call = call_of(rank, c, in_place, 0);
    std::byte* results = rank.recv + static_cast<size_t>(options_.unalign) * bytes_of(c.type);
    std::memset(results, kGuardPattern, c.bytes() + kGuardBytes);
    const size_t count = collective_.send_count(c.count, job_.total_ranks());
    generate(recipe_of(c, seed), rank.rank, collective_.contributed_from(rank.rank, job_.total_ranks(), c.count), count,
             const_cast<void*>(call.send));
  }
}

double Worker::count_errors(const Case& c, bool in_place, uint64_t seed) {
  const int ranks = job_.total_ranks();
  const Recipe recipe = recipe_of(c, seed);
  size_t errors = 0;
  for (Rank& rank : ranks_) {
    const Call call = call_of(rank, c, in_place, 0);
    if (collective_.has_result(rank.rank, c.root)) {
      const size_t first = collective_.received_from(rank.rank, ranks, c.root, c.count);
      const int runs = collective_.received_runs(ranks);
      const size_t count = collective_.recv_count(c.count, ranks) / static_cast<size_t>(runs);
      const auto* received = static_cast<const std::byte*>(call.recv);
      for (int run = 0; run < runs; ++run, received += count * bytes_of(c.type)) {
        errors += count_wrong(recipe, first + static_cast<size_t>(run) * collective_.received_stride(ranks, c.count), count, received);
      }
    }
  }
  return static_cast<double>(errors) + count_touched(c, in_place, seed);
}

/// Out of place, the input must be as it was, and so must what lies behind the output.
double Worker::count_touched(const Case& c, bool in_place, uint64_t seed) {
  if (in_place) return 0;
  const int ranks = job_.total_ranks();
  const Recipe recipe = recipe_of(c, seed);
  size_t errors = 0;
  for (Rank& rank : ranks_) {
    const Call call = call_of(rank, c, in_place, 0);
    const size_t first = collective_.contributed_from(rank.rank, ranks, c.count);
    errors += count_changed(recipe, rank.rank, first, collective_.send_count(c.count, ranks), call.send);
    const auto* behind = static_cast<const unsigned char*>(call.recv) + c.recv_bytes;
    errors += static_cast<size_t>(std::count_if(behind, behind + kGuardBytes, [](unsigned char byte) { return byte != kGuardPattern; }));
  }
  return static_cast<double>(errors);
}

void Worker::spoil(const Case& c, bool in_place) {
  spoil_pending_ = false;
  const int victim = collective_.reduces && collective_.rooted ? c.root : 0;
  for (Rank& rank : ranks_) {
    if (rank.rank != victim) continue;
    auto* element = static_cast<unsigned char*>(call_of(rank, c, in_place, 0).recv);
    if (options_.coded()) {
      element[bytes_of(c.type) - 1] = 0x7e;  // very large, or not a number: far beyond what all others lose together
    } else {
      element[bytes_of(c.type) - 1] ^= 0x41;  // sign and an exponent bit: far beyond any tolerance
    }
  }
}

}  // namespace sweep
