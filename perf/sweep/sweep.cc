// SPDX-License-Identifier: Apache-2.0
// The whole of a *_perf program but its collective (see sweep.h).
#include "sweep.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "host_facts.h"
#include "worker.h"

namespace sweep {
namespace {

/// What each process tells the others about itself before anything else.
struct Card {
  std::array<char, 64> host{};
  std::array<char, 64> cpu{};
  uint64_t host_hash = 0;
  uint64_t arguments_hash = 0;
  uint64_t available_bytes = 0;
  int pid = 0;
  int numa_node = 0;
};

template <size_t kSize>
void copy_text(const std::string& text, std::array<char, kSize>& out) {
  text.copy(out.data(), kSize - 1);
}

Card own_card(int argc, const char* const* argv) {
  Card card;
  copy_text(host_name(), card.host);
  copy_text(cpu_model(), card.cpu);
  card.host_hash = host_hash();
  for (int at = 1; at < argc; ++at) card.arguments_hash = card.arguments_hash * 31 + std::hash<std::string>{}(argv[at]);
  card.available_bytes = available_memory_bytes();
  card.pid = getpid();
  card.numa_node = numa_node();
  return card;
}

/// The file that the library's code comes from: the loader's search may find another one than was meant.
std::string library_path() {
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<void*>(&ncclGetVersion), &info) != 0 && info.dli_fname != nullptr;
  return found ? info.dli_fname : "unknown";
}

constexpr const char* kNotWritten = "standard output could not be written (is the disk full?); results are missing";

bool written_out() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

class Sweep {
 public:
  Sweep(const Collective& collective, Options options, LaunchEnvironment environment, Oob& oob, int argc, const char* const* argv)
      : collective_(collective),
        options_(std::move(options)),
        environment_(std::move(environment)),
        oob_(oob),
        program_(argv[0]),
        report_(options_, argc, argv, environment_.report, oob.rank() == 0),
        team_(oob, options_.threads) {
    try {
      cards_ = oob_.gather(std::span<const Card>(std::array{own_card(argc, argv)}));
    } catch (const Failure& failure) {
      give_up(failure);
    }
  }

  int run() {
    try {
      return run_unguarded();
    } catch (const Failure& failure) {
      give_up(failure);
    } catch (const std::exception& error) {
      give_up({.exit_code = kExitInternal, .text = error.what()});
    }
  }

 private:
  int run_unguarded() {
    check_agreement();
    limit_memory();
    Job job(options_, collective_, oob_.rank(), oob_.size());
    check_root(job);
    check_ranks(job);
    describe(job);
    job.allocate();
    const MemoryUse before = memory_use();
    const ncclUniqueId id = exchange_id();
    if (!options_.parallel_init) job.join(id, 0, static_cast<int>(job.ranks().size()));
    const MemoryUse joined = memory_use();
    report_.columns();
    const Tally tally = run_workers(job, id);
    const std::vector<std::string> facts = memory_facts(before, joined);
    job.leave();
    return conclude(tally, facts);
  }

  void check_agreement() const {
    for (size_t process = 0; process < cards_.size(); ++process) {
      if (cards_[process].arguments_hash == cards_[0].arguments_hash) continue;
      throw Failure{kExitUsage, fmt::format("process {} was started with other arguments than process 0; give all the same", process)};
    }
  }

  void check_root(const Job& job) const {
    if (!collective_.rooted || options_.root < job.total_ranks()) return;
    throw Failure{kExitUsage, fmt::format("-r {}: there are only ranks 0 to {}", options_.root, job.total_ranks() - 1)};
  }

  void check_ranks(const Job& job) const {
    if (!options_.coded() || job.total_ranks() > 1) return;
    throw Failure{kExitUsage, "--codec: one rank sends nothing; start several (-g 2, or isthmus run -n 2)"};
  }

  /// Keeps the buffers of all processes of a machine within its free memory, by a smaller largest size if need be.
  void limit_memory() {
    uint64_t limit = options_.max_bytes;
    const auto ranks = static_cast<uint64_t>(options_.threads) * static_cast<uint64_t>(options_.ranks_per_thread);
    for (const Card& card : cards_) {
      uint64_t neighbours = 0;
      for (const Card& other : cards_) neighbours += other.host_hash == card.host_hash ? 1 : 0;
      limit = std::min(limit, card.available_bytes / 10 * 9 / (neighbours * ranks * 2));
    }
    if (limit == options_.max_bytes) return;
    if (limit < options_.min_bytes) {
      throw Failure{kExitUsage, fmt::format("-b {}: buffers of that size for all ranks do not fit the machine's free memory (limit {})",
                                            options_.min_bytes, limit)};
    }
    options_.max_bytes = limit;
    options_.notes.push_back(fmt::format("Reducing maxBytes to {} due to memory limitation", limit));
  }

  void describe(const Job& job) {
    const int per_process = job.total_ranks() / oob_.size();
    std::vector<RankPlace> places;
    std::map<uint64_t, int> ranks_on_host;
    for (const Card& card : cards_) {
      for (int at = 0; at < per_process; ++at) {
        places.push_back({.rank = static_cast<int>(places.size()),
                          .pid = card.pid,
                          .device = ranks_on_host[card.host_hash]++,
                          .host = card.host.data(),
                          .slot = fmt::format("0000:{:02x}:00", card.numa_node),
                          .cpu = card.cpu.data()});
      }
    }
    const size_t hosts = ranks_on_host.size();
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    const std::vector<std::string> facts = {
        fmt::format("Library: {}", library_path()),
        fmt::format("Processes: {} ({}) on {} host{}", oob_.size(), oob_.name(), hosts, hosts == 1 ? "" : "s"),
        fmt::format("Streams: {}; buffers: {}, 2 x {} bytes per rank{}",
                    options_.null_stream ? "NULL (calls return when they are done)" : "one host stream per rank",
                    options_.malloc_buffers ? "malloc" : "ncclMemAlloc", job.bytes_per_rank() / 2,
                    options_.reuse_buffers ? ", reused" : "")};
    report_.header(version, facts, places);
  }

  ncclUniqueId exchange_id() {
    ncclUniqueId id = {};
    if (oob_.size() == 1 && !options_.parallel_init) return id;  // ncclCommInitAll needs none
    if (oob_.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return oob_.broadcast(id);
  }

  Tally run_workers(Job& job, const ncclUniqueId& id) {
    Watchdog watchdog(options_.timeout_s, [&] { expire(job); });
    std::vector<Worker> workers;
    workers.reserve(static_cast<size_t>(options_.threads));
    for (int thread = 0; thread < options_.threads; ++thread) workers.emplace_back(job, team_, report_, watchdog, thread);
    const auto work = [&](int thread) {
      try {
        if (options_.parallel_init) job.join(id, thread * options_.ranks_per_thread, options_.ranks_per_thread);
        workers[static_cast<size_t>(thread)].run();
      } catch (const Failure& failure) {
        give_up(failure);
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 1; thread < options_.threads; ++thread) threads.emplace_back(work, thread);
    work(0);
    for (std::thread& thread : threads) thread.join();
    return workers.front().tally();
  }

  /// The watchdog's thread: calls that are stuck end with an error once their communicators are aborted.
  void expire(Job& job) {
    expired_ = true;
    job.abort();
    give_up(Failure{});
  }

  [[noreturn]] void give_up(const Failure& failure) {
    if (!expired_) report_.give_up(program_, failure);
    report_.give_up(program_, {.exit_code = kExitTimeout, .text = fmt::format("{}: Test timeout ({}s)", host_name(), options_.timeout_s)});
  }

  std::vector<std::string> memory_facts(const MemoryUse& before, const MemoryUse& joined) {
    if (!options_.memory_report) return {};
    const std::array<double, 3> own = {before.now_mib, joined.now_mib, memory_use().peak_mib};
    const std::vector<double> all = oob_.gather<double>(own);
    std::array<double, 3> largest{};
    for (size_t at = 0; at < all.size(); ++at) largest[at % 3] = std::max(largest[at % 3], all[at]);
    return {fmt::format("Memory usage         : largest process, MiB: buffers {:.1f} | with communicators {:.1f} | peak {:.1f}", largest[0],
                        largest[1], largest[2])};
  }

  int conclude(const Tally& tally, const std::vector<std::string>& facts) {
    const Summary summary = {.wrong = static_cast<uint64_t>(tally.wrong),
                             .average_busbw = tally.busbw_sum / tally.measurements,
                             .min_busbw = environment_.min_busbw,
                             .calls = tally.calls,
                             .faults = tally.faults};
    report_.finish(summary, facts, summary.ok() ? "" : ncclGetLastError(nullptr));
    if (!written_out()) throw Failure{kExitInternal, kNotWritten};
    if (options_.inject_wrong && summary.wrong == 0) {
      throw Failure{kExitInternal, "--inject-wrong: no element was found wrong (were all sizes empty?)"};
    }
    oob_.finish();
    return summary.ok() ? 0 : kExitWrongData;
  }

  const Collective& collective_;
  Options options_;
  LaunchEnvironment environment_;
  Oob& oob_;
  std::string program_;
  Report report_;
  Team team_;
  std::vector<Card> cards_;
  std::atomic<bool> expired_ = false;
};

}  // namespace

int run_sweep(const Collective& collective, int argc, const char* const* argv) {
  Parsed parsed = parse_options(collective.title, collective.start_coded != nullptr, argc, argv);
  const LaunchEnvironment environment = read_launch_environment();
  if (!parsed.options) {
    if (environment.rank == 0) std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);  // all ranks would say the same
    const bool complete = written_out();
    if (!complete) std::fprintf(stderr, "%s: %s\n", argv[0], kNotWritten);
    return parsed.exit_code == 0 && !complete ? kExitInternal : parsed.exit_code;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::unique_ptr<Oob> oob;
  try {
    oob = connect_oob(environment);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", argv[0], failure.text.c_str());
    return failure.exit_code;
  }
  return Sweep(collective, *parsed.options, environment, *oob, argc, argv).run();
}

}  // namespace sweep
