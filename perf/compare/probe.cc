// SPDX-License-Identifier: Apache-2.0
// The measuring loop (see probe.h).
//     PROGRAM [-g RANKS_PER_PROCESS] [--memory library|ordinary] [--batches N] [--together] [--limit-ms MS]
//         COLLECTIVE:BYTES:ITERATIONS...
// BYTES are nccl-tests' (the larger of one rank's buffers). Without --together a batch is ITERATIONS calls one after the other, and
// the result is the median over batches of the slowest rank's time per call. With it, all ranks begin each call at an instant agreed
// before, and the result is the median over all calls of the time from that instant until the last rank is done. --limit-ms makes a
// batch shorter that would take longer: for a first look at who is worth measuring.
#include "probe.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

namespace compare {
namespace {

using Clock = std::chrono::steady_clock;  // one for all processes of a host

constexpr size_t kElementBytes = sizeof(float);
constexpr double kUnset = -1e30;

struct Item {
  Collective collective = Collective::allreduce;
  std::string_view name;
  uint64_t bytes = 0;
  int iterations = 0;
};

struct Options {
  int batches = 3;
  int ranks_per_process = 1;  // used before there is a library
  int limit_ms = 0;           // of a batch; 0: none
  bool together = false;
  bool ordinary_memory = false;  ///< malloc's instead of the library's own
  std::vector<Item> items;
};

struct Result {
  double seconds = 0;
  int late = 0;  ///< calls left out because a rank came after the agreed instant
};

constexpr std::pair<std::string_view, Collective> kNames[] = {{"allreduce", Collective::allreduce},
                                                              {"reduce_scatter", Collective::reduce_scatter},
                                                              {"reduce_scatter_counts", Collective::reduce_scatter_counts},
                                                              {"allgather", Collective::allgather}};

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

std::optional<Item> read_item(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  Item item;
  item.name = text.substr(0, first);
  const auto* known = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& entry) { return entry.first == item.name; });
  if (known == std::end(kNames)) return std::nullopt;
  item.collective = known->second;
  if (!read_number(text.substr(first + 1, second - first - 1), item.bytes)) return std::nullopt;
  if (!read_number(text.substr(second + 1), item.iterations)) return std::nullopt;
  return item;
}

/// Where the number of an option goes; null if it is no such option.
int* number_of(Options& options, std::string_view word) {
  if (word == "--batches") return &options.batches;
  if (word == "--limit-ms") return &options.limit_ms;
  return word == "-g" ? &options.ranks_per_process : nullptr;
}

Options parse(int argc, const char* const* argv) {
  Options options;
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    const std::string_view next = at + 1 < argc ? argv[at + 1] : "";
    if (word == "--together") {
      options.together = true;
    } else if (word == "--memory" && (next == "library" || next == "ordinary")) {
      options.ordinary_memory = next == "ordinary";
      ++at;
    } else if (int* number = number_of(options, word); number != nullptr && read_number(next, *number)) {
      ++at;
    } else if (const auto item = read_item(word)) {
      options.items.push_back(*item);
    } else {
      throw std::invalid_argument("'" + std::string(word) + "': neither an option nor COLLECTIVE:BYTES:ITERATIONS");
    }
  }
  if (options.items.empty()) throw std::invalid_argument("nothing to measure; name COLLECTIVE:BYTES:ITERATIONS");
  return options;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// What a rank contributes at an index; sums of it are exact.
float contribution(int factor, size_t index) { return static_cast<float>(factor) * static_cast<float>(index % 13 + 1); }

class Probe {
 public:
  Probe(Library& library, const Options& options) : library_(library), options_(options) {
    uint64_t largest = 0;
    for (const Item& item : options.items) largest = std::max(largest, item.bytes);
    const size_t floats = std::max(largest / kElementBytes, static_cast<size_t>(library.ranks()));
    for (Place& place : library_.places()) {
      place.recv = options.ordinary_memory ? Buffer(floats) : library.allocate(floats);
      place.send = options.ordinary_memory ? Buffer(floats) : library.allocate(floats);
      for (size_t i = 0; i < floats; ++i) place.send.data()[i] = contribution(place.rank + 1, i);
    }
  }

  Result measure(const Item& item) {
    const size_t count = count_of(item);
    verify(item, count);
    line_up();
    Item timed = item;
    double estimate = time_calls(item, count, 1);
    if (options_.limit_ms > 0) timed.iterations = std::clamp(static_cast<int>(options_.limit_ms * 1e-3 / estimate), 1, item.iterations);
    estimate = time_calls(timed, count, timed.iterations / 5 + 1);
    return options_.together ? time_together(timed, count, estimate) : time_batches(timed, count);
  }

 private:
  /// Elements as NCCL counts them: of the whole for allreduce, of one rank's part for the others; at least one.
  [[nodiscard]] size_t count_of(const Item& item) const {
    const size_t elements = item.bytes / kElementBytes;
    const bool parts = item.collective != Collective::allreduce;
    return std::max<size_t>(parts ? elements / static_cast<size_t>(library_.ranks()) : elements, 1);
  }

  /// All processes leave a collective operation at about the same time.
  void line_up() {
    double token = 0;
    for (int i = 0; i < 2; ++i) library_.maximum(std::span(&token, 1));
  }

  /// Seconds per call on the slowest process: the same number everywhere.
  double time_calls(const Item& item, size_t count, int calls) {
    const double begin = now_s();
    for (int i = 0; i < calls; ++i) library_.run(item.collective, count);
    double seconds = (now_s() - begin) / calls;
    library_.maximum(std::span(&seconds, 1));
    return seconds;
  }

  Result time_batches(const Item& item, size_t count) {
    std::vector<double> times;
    for (int batch = 0; batch < options_.batches; ++batch) {
      line_up();
      const double begin = now_s();
      for (int i = 0; i < item.iterations; ++i) library_.run(item.collective, count);
      times.push_back((now_s() - begin) / item.iterations);
    }
    library_.maximum(times);
    return {.seconds = median(times)};
  }

  Result time_together(const Item& item, size_t count, double estimate) {
    const double period = 3 * estimate + 30e-6;
    std::vector<double> times, kept;
    for (int batch = 0; batch < options_.batches; ++batch) {
      double start = now_s() + period;
      library_.maximum(std::span(&start, 1));
      for (int i = 0; i < item.iterations; ++i) times.push_back(time_from(start + i * period, item.collective, count));
    }
    // a rank that was late turns the call's time into a negative number, which must win: so the lateness is spread on its own
    std::vector<double> late(times.size());
    std::transform(times.begin(), times.end(), late.begin(), [](double time) { return time < 0 ? 1.0 : 0.0; });
    library_.maximum(times);
    library_.maximum(late);
    for (size_t i = 0; i < times.size(); ++i) {
      if (late[i] == 0) kept.push_back(times[i]);
    }
    if (kept.empty()) throw std::runtime_error("no call began together; is the machine busy?");
    return {.seconds = median(kept), .late = static_cast<int>(times.size() - kept.size())};
  }

  /// Seconds from the instant until the call is done here; kUnset if the instant had passed.
  double time_from(double instant, Collective collective, size_t count) {
    const bool late = now_s() > instant;
    while (now_s() < instant) {
      if (library_.ranks() > 2) sched_yield();
    }
    library_.run(collective, count);
    return late ? kUnset : now_s() - instant;
  }

  /// One call into cleared buffers, every element compared: a library that did nothing would be the fastest.
  void verify(const Item& item, size_t count) {
    for (const Place& place : library_.places()) std::fill(place.recv.all().begin(), place.recv.all().end(), 0.0F);
    library_.run(item.collective, count);
    const int ranks = library_.ranks();
    const int all = ranks * (ranks + 1) / 2;
    for (const Place& place : library_.places()) {
      const bool gathers = item.collective == Collective::allgather;
      const size_t own = gathers || item.collective == Collective::allreduce ? 0 : static_cast<size_t>(place.rank) * count;
      const size_t results = gathers ? count * static_cast<size_t>(ranks) : count;
      for (size_t i = 0; i < results; ++i) {
        const float right = gathers ? contribution(static_cast<int>(i / count) + 1, i % count) : contribution(all, own + i);
        if (place.recv.data()[i] != right)
          throw std::runtime_error(std::string(item.name) + ": wrong result at element " + std::to_string(i));
      }
    }
  }

  Library& library_;
  const Options& options_;
};

}  // namespace

int ranks_per_process(int argc, const char* const* argv) {
  int ranks = 1;
  for (int at = 1; at + 1 < argc; ++at) {
    if (std::string_view(argv[at]) == "-g") read_number(std::string_view(argv[at + 1]), ranks);
  }
  return ranks;
}

int run_probe(Library& library, int argc, const char* const* argv) {
  try {
    const Options options = parse(argc, argv);
    Probe probe(library, options);
    for (const Item& item : options.items) {
      const Result result = probe.measure(item);
      if (library.places().front().rank != 0) continue;
      std::printf("{\"collective\": \"%.*s\", \"bytes\": %llu, \"us\": %.4f, \"late\": %d}\n", static_cast<int>(item.name.size()),
                  item.name.data(), static_cast<unsigned long long>(item.bytes), result.seconds * 1e6, result.late);
      std::fflush(stdout);
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return 0;
}

}  // namespace compare
