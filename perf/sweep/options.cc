// SPDX-License-Identifier: Apache-2.0
// Parsing of the sweeps' command line (see options.h).
#include "options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace sweep {
namespace {

constexpr int kBadValue = 255;
constexpr int kNotImplemented = 5;

/// Options that are about GPUs. Off is accepted; on is refused or has no effect.
struct GpuOptions {
  int graph = 0;
  int cta_policy = 0;
  int device_implementation = 0;
  int device_ctas = 0;
};

/// Words as typed, before they are given their meaning.
struct Words {
  std::string min_bytes, max_bytes, step_bytes;
  std::string op = "sum", type = "float";
  int average = 1;
  int registration = 0;
  std::string buffers = "nccl";
};

void add_size_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("-t,--nthreads", options.threads, "Threads per process")->check(CLI::Range(1, INT32_MAX));
  app.add_option("-g,--ngpus", options.ranks_per_thread, "Ranks per thread")->check(CLI::Range(1, INT32_MAX));
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size; units K, M, G (default 32M)");
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size (default 32M)");
  app.add_option("-i,--stepbytes", words.step_bytes, "Added from size to size (default 1M)");
  app.add_option("-f,--stepfactor", options.step_factor, "Multiplied from size to size; above 1 it replaces -i")
      ->check(CLI::Range(1, INT32_MAX));
}

void add_run_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("-n,--iters", options.iterations, "Timed iterations per size")->check(CLI::Range(1, INT32_MAX));
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "Untimed iterations per size before the sweep")
      ->check(CLI::Range(0, INT32_MAX));
  app.add_option("-m,--agg_iters", options.aggregated, "Operations per iteration, in one group")->check(CLI::Range(1, INT32_MAX));
  app.add_option("-N,--run_cycles", options.cycles, "Runs of the whole sweep; 0: for ever")->check(CLI::Range(0, INT32_MAX));
  app.add_option("-p,--parallel_init", options.parallel_init, "1: each thread joins its own ranks");
  app.add_option("-c,--check", options.checks, "Verified runs per size; 0: none")->check(CLI::Range(0, INT32_MAX));
  app.add_option("-o,--op", words.op, "sum, prod, max, min, avg, mulsum or all");
  app.add_option("-d,--datatype", words.type,
                 "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2 or all");
  app.add_option("-r,--root", options.root, "Root of broadcast and reduce; -1: each rank in turn")->check(CLI::Range(-1, INT32_MAX));
  app.add_option("-z,--blocking", options.blocking, "1: wait and barrier after each operation; 2, 3: wait only")->check(CLI::Range(0, 3));
  app.add_option("-y,--stream_null", options.null_stream, "1: the NULL stream, calls return when done; 0: a host stream per rank");
  app.add_option("-T,--timeout", options.timeout_s, "Seconds until a measurement is given up and communicators are aborted; 0: never")
      ->check(CLI::Range(0, INT32_MAX));
  app.add_option("-R,--local_register", words.registration, "1: register the buffers")->check(CLI::Range(0, 2));
  app.add_option("-u,--unalign", options.unalign, "Elements by which buffers start off their alignment")->check(CLI::Range(0, 4096));
}

void add_report_options(CLI::App& app, Options& options, Words& words) {
  app.add_option("-C,--report_cputime", options.report_cputime, "1: report the time spent in calls instead of the time to completion");
  app.add_option("-S,--report_timestamps", options.timestamps, "1: a column with the time of day");
  app.add_option("-J,--output_file", options.json_file, "Also write the results as JSON; never overwrites: FILE, FILE.0, ...");
  app.add_option("-a,--average", words.average, "Of the ranks' times: 0 rank 0's, 1 mean, 2 min, 3 max")->check(CLI::Range(0, 3));
  app.add_option("-M,--memory_report", options.memory_report, "1: report memory use");
  app.add_option("-I,--per_iter_timing", options.per_iteration, "1: complete and time each iteration; columns i_min i_max i_p99 i_cv%");
  app.add_option("-K,--per_iter_skip", options.skip_iterations, "Iterations left out of -I's statistics")->check(CLI::Range(0, INT32_MAX));
}

void add_own_options(CLI::App& app, Options& options, Words& words) {
  const std::string group = "Options beyond nccl-tests'";
  app.add_option("--host-buffers", words.buffers, "Where buffers come from: nccl (ncclMemAlloc) or malloc")
      ->check(CLI::IsMember({"nccl", "malloc"}))
      ->group(group);
  app.add_flag("--reuse-buffers", options.reuse_buffers, "Every iteration uses the same memory, not the next part of the buffer")
      ->group(group);
  app.add_flag("--percentiles", options.percentiles, "Columns p50 p95 p99 of the iterations' times (needs -y 1, -z or -I)")->group(group);
  app.add_flag("--cpu-per-op", options.cpu_per_op, "A column with the CPU time of all ranks per operation")->group(group);
  app.add_flag("--inject-wrong", options.inject_wrong, "Spoil one element before it is verified: the program must fail")->group(group);
}

void add_gpu_options(CLI::App& app, GpuOptions& gpu) {
  const std::string group = "Accepted for compatibility (GPUs only)";
  app.add_option("-G,--cudagraph", gpu.graph, "Graph launches; hosts: 0")->group(group);
  app.add_option("-x,--cta_policy", gpu.cta_policy, "No effect on hosts")->group(group);
  app.add_option("-D,--device_implementation", gpu.device_implementation, "Device-side implementation; hosts: 0")->group(group);
  app.add_option("-V,--device_cta_count", gpu.device_ctas, "No effect on hosts")->group(group);
}

/// "" if fine; else what was asked for that hosts do not have.
std::string apply(const GpuOptions& gpu, int registration, Options& options) {
  if (registration == 2) return "-R 2: symmetric registration needs GPUs; use 0 or 1";
  options.register_buffers = registration == 1;
  if (gpu.graph != 0) return "-G: CUDA graphs need a GPU; leave it at 0";
  if (gpu.device_implementation != 0) return "-D: device-side implementations need a GPU; leave it at 0";
  if (gpu.cta_policy != 0) options.notes.emplace_back("-x has no effect on hosts");
  if (gpu.device_ctas != 0) options.notes.emplace_back("-V has no effect on hosts");
  return "";
}

std::string read_size(const char* option, const std::string& word, uint64_t& bytes) {
  if (word.empty()) return "";
  const std::optional<uint64_t> parsed = parse_size(word);
  if (!parsed) return std::string(option) + ": '" + word + "' is no size; use a number with K, M or G, such as 8, 1.5K, 32M";
  bytes = *parsed;
  return "";
}

std::string read_lists(const Words& words, Options& options) {
  if (words.op == "all") {
    options.ops.assign(std::begin(kOps), std::end(kOps));
  } else if (const auto op = op_named(words.op)) {
    options.ops = {*op};
  } else {
    return "-o: '" + words.op + "' is no operator; use sum, prod, max, min, avg, mulsum or all";
  }
  if (words.type == "all") {
    options.types.clear();
    for (int type = 0; type < ncclNumTypes; ++type) options.types.push_back(static_cast<ncclDataType_t>(type));
  } else if (const auto type = type_named(words.type)) {
    options.types = {*type};
  } else {
    return "-d: '" + words.type + "' is no element type; see --help for the list";
  }
  return "";
}

/// Gives the words their meaning; "" or what is wrong with them.
std::string apply(const Words& words, Options& options) {
  options.average = static_cast<Average>(words.average);
  options.malloc_buffers = words.buffers == "malloc";
  for (std::string problem : {read_size("-b", words.min_bytes, options.min_bytes), read_size("-e", words.max_bytes, options.max_bytes),
                              read_size("-i", words.step_bytes, options.step_bytes), read_lists(words, options)}) {
    if (!problem.empty()) return problem;
  }
  if (options.min_bytes > options.max_bytes) return "-b is larger than -e";
  if (options.step_factor == 1 && options.step_bytes == 0) return "-i 0 would never reach -e";
  if (options.step_factor > 1 && options.min_bytes == 0 && options.max_bytes > 0) return "-b 0 cannot grow by a factor; use -i";
  if (options.skip_iterations >= options.iterations) return "-K leaves no iteration; it must be less than -n";
  if (options.inject_wrong && options.checks == 0) return "--inject-wrong needs a verified run; use -c 1 or more";
  const bool synchronous = options.null_stream || options.blocking != 0 || options.per_iteration;
  if (options.percentiles && !synchronous) return "--percentiles times each iteration; add -I 1, -y 1 or -z 2";
  return "";
}

Parsed refuse(std::string_view program, const std::string& problem, int exit_code) {
  return {.options = std::nullopt, .text = std::string(program) + ": " + problem + "\n", .exit_code = exit_code};
}

}  // namespace

Parsed parse_options(std::string_view title, int argc, const char* const* argv) {
  Options options;
  Words words;
  GpuOptions gpu;
  CLI::App app("Measures and verifies " + std::string(title) +
               " over a range of sizes, with the options, table and exit codes of nccl-tests.\n"
               "Ranks are processes (isthmus run, mpirun) x threads (-t) x ranks per thread (-g).");
  const std::string program = argc > 0 ? CLI::detail::split(argv[0], '/').back() : "sweep";
  app.name(program);
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_size_options(app, options, words);
  add_run_options(app, options, words);
  add_report_options(app, options, words);
  add_own_options(app, options, words);
  add_gpu_options(app, gpu);
  app.footer(
      "Exit codes: 0 all right; 1 internal; 3 a library call failed; 4 time-out; 5 not possible on hosts; 6 the\n"
      "processes or ranks do not fit the options; 7 wrong data, or bandwidth below 0.9 x NCCL_TESTS_MIN_BW; 255 the command line is\n"
      "wrong.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.options = std::nullopt, .text = app.help(), .exit_code = 0};
  } catch (const CLI::ParseError& error) {
    return refuse(program, std::string(error.what()) + " (see --help)", kBadValue);
  }
  if (const std::string problem = apply(words, options); !problem.empty()) return refuse(program, problem, kBadValue);
  if (const std::string problem = apply(gpu, words.registration, options); !problem.empty())
    return refuse(program, problem, kNotImplemented);
  return {.options = std::move(options), .text = "", .exit_code = 0};
}

std::optional<uint64_t> parse_size(std::string_view text) {
  const std::string copy(text);
  char* rest = nullptr;
  const double number = std::strtod(copy.c_str(), &rest);
  if (rest == copy.c_str() || !std::isfinite(number) || number < 0) return std::nullopt;
  double unit = 1;
  switch (*rest) {
    case '\0':
      break;
    case 'k':
    case 'K':
      unit = 1 << 10;
      break;
    case 'm':
    case 'M':
      unit = 1 << 20;
      break;
    case 'g':
    case 'G':
      unit = 1 << 30;
      break;
    default:
      return std::nullopt;
  }
  if (*rest != '\0' && rest[1] != '\0') return std::nullopt;
  if (number * unit > 0x1p62) return std::nullopt;
  return static_cast<uint64_t>(number * unit);
}

}  // namespace sweep
