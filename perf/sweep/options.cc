// SPDX-License-Identifier: Apache-2.0
// Parsing of the sweeps' command line (see options.h).
#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

#include "failure.h"

namespace sweep {
namespace {

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
  std::optional<std::string> codec, data;
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

void add_codec_options(CLI::App& app, Options& options, Words& words) {
  const std::string group = "Compression (all_reduce_perf, reduce_scatter_perf)";
  app.add_option("--codec", words.codec,
                 "Measure calls through this codec, each beside the exact call: none, bf16, int8, int4, thc, or thc with options, such as\n"
                 "thc:b=4,p=1/32. Appends columns: wire, the bytes that a rank sends in a call, without headers (the most of any rank);\n"
                 "nmse, the result's squared error over the squared exact result; exact and busbw, the exact call's; speedup, its time\n"
                 "over the codec's. Iterations with and without the codec take turns; ranks begin each together, and complete it.\n"
                 "algbw and busbw are of the elements as they are. #wrong counts a result whose nmse is above what the codec should\n"
                 "lose, one that differs between ranks, and what was changed although it must not be")
      ->group(group);
  app.add_option("--codec-algorithm", options.codec_algorithm,
                 "direct, halving, ring, root, hierarchy or two_shot, whichever the codec has")
      ->group(group);
  app.add_option("--data", words.data, "With --codec, elements are gaussian (default), or as usual: small numbers times powers of two")
      ->check(CLI::IsMember({"gaussian", "usual"}))
      ->group(group);
  app.add_flag("--no-exact", options.no_exact, "With --codec, make no exact calls: their columns are N/A")->group(group);
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

bool codecs_serve(ncclDataType_t type) { return type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16; }
bool codecs_serve(Op op) { return op == Op::sum || op == Op::avg || op == Op::mulsum; }

/// Leaves in a list what codecs serve; "" or that nothing is left.
template <typename T>
std::string keep_served(const char* option, const char* served, std::vector<T>& list, std::vector<std::string>& notes) {
  const size_t before = list.size();
  const std::string first(name_of(list.front()));
  std::erase_if(list, [](T one) { return !codecs_serve(one); });
  if (list.empty()) return fmt::format("{} {}: codecs serve {} only", option, first, served);
  if (list.size() < before) notes.push_back(fmt::format("of {} all, what codecs serve: {}", option, served));
  return "";
}

std::string apply_codec(const Words& words, bool with_codecs, Options& options) {
  if (!words.codec) {
    if (!options.codec_algorithm.empty()) return "--codec-algorithm says how a codec's call is made; add --codec";
    if (options.no_exact) return "--no-exact would leave nothing to measure; add --codec";
    return words.data ? "--data is for results that may differ from the exact ones; add --codec" : "";
  }
  if (!with_codecs) return "--codec: only allreduce and reduce-scatter go through codecs; use all_reduce_perf or reduce_scatter_perf";
  if (words.codec->find_first_not_of(' ') == std::string::npos) return "--codec: name one: none, bf16, int8, int4 or thc";
  options.codec = *words.codec;
  options.data = words.data == "usual" ? Data::usual : Data::gaussian;
  const std::string problem = keep_served("-d", "float, half and bfloat16", options.types, options.notes);
  return problem.empty() ? keep_served("-o", "sum, avg and mulsum", options.ops, options.notes) : problem;
}

/// Gives the words their meaning; "" or what is wrong with them.
std::string apply(const Words& words, bool with_codecs, Options& options) {
  options.average = static_cast<Average>(words.average);
  options.malloc_buffers = words.buffers == "malloc";
  for (std::string problem :
       {read_size("-b", words.min_bytes, options.min_bytes), read_size("-e", words.max_bytes, options.max_bytes),
        read_size("-i", words.step_bytes, options.step_bytes), read_lists(words, options), apply_codec(words, with_codecs, options)}) {
    if (!problem.empty()) return problem;
  }
  if (options.min_bytes > options.max_bytes) return "-b is larger than -e";
  if (options.step_factor == 1 && options.step_bytes == 0) return "-i 0 would never reach -e";
  if (options.step_factor > 1 && options.min_bytes == 0 && options.max_bytes > 0) return "-b 0 cannot grow by a factor; use -i";
  if (options.skip_iterations >= options.iterations) return "-K leaves no iteration; it must be less than -n";
  if (options.inject_wrong && options.checks == 0) return "--inject-wrong needs a verified run; use -c 1 or more";
  const bool synchronous = options.null_stream || options.blocking != 0 || options.per_iteration || options.coded();
  if (options.percentiles && !synchronous) return "--percentiles times each iteration; add -I 1, -y 1 or -z 2";
  return "";
}

Parsed refuse(std::string_view program, const std::string& problem, int exit_code) {
  return {.options = std::nullopt, .text = std::string(program) + ": " + problem + "\n", .exit_code = exit_code};
}

}  // namespace

Parsed parse_options(std::string_view title, bool with_codecs, int argc, const char* const* argv) {
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
  add_codec_options(app, options, words);
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
    return refuse(program, std::string(error.what()) + " (see --help)", kExitBadValue);
  }
  if (const std::string problem = apply(words, with_codecs, options); !problem.empty()) return refuse(program, problem, kExitBadValue);
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
