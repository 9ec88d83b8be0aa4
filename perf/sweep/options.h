// SPDX-License-Identifier: Apache-2.0
// The command line of the sweeps: nccl-tests' options, with its short and long names and defaults, and a few of our own. Parsed
// once by run_sweep(). Unknown options, bad values and what a host cannot do are refused; options without an effect on hosts are
// accepted and said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator.h"

namespace sweep {

/// How the times of ranks become one number (-a).
enum class Average { rank0, mean, min, max };

struct Options {
  int threads = 1;           // -t
  int ranks_per_thread = 1;  // -g
  uint64_t min_bytes = 32 << 20;
  uint64_t max_bytes = 32 << 20;
  uint64_t step_bytes = 1 << 20;
  uint64_t step_factor = 1;  // above 1 it replaces step_bytes
  int iterations = 20;
  int warmup_iterations = 1;
  int aggregated = 1;  // -m: operations per group
  int cycles = 1;      // -N: 0 for ever
  bool parallel_init = false;
  int checks = 1;                                     // -c: verified runs per line, 0 none
  std::vector<Op> ops = {Op::sum};                    // -o
  std::vector<ncclDataType_t> types = {ncclFloat32};  // -d
  int root = 0;                                       // -r, -1 all
  int blocking = 0;                                   // -z: 1 complete and barrier after each operation, 2 and 3 complete only
  bool null_stream = true;                            // -y
  int timeout_s = 0;                                  // -T
  bool report_cputime = false;                        // -C: the time spent in calls, in place of the time to completion
  bool timestamps = false;                            // -S
  std::string json_file;                              // -J
  Average average = Average::mean;                    // -a
  bool register_buffers = false;                      // -R 1
  bool memory_report = false;                         // -M
  int unalign = 0;                                    // -u: elements by which buffers start off alignment
  bool per_iteration = false;                         // -I
  int skip_iterations = 0;                            // -K

  bool malloc_buffers = false;  // --host-buffers
  bool reuse_buffers = false;   // --reuse-buffers
  bool percentiles = false;     // --percentiles
  bool cpu_per_op = false;      // --cpu-per-op
  bool inject_wrong = false;    // --inject-wrong

  std::string codec;            // --codec: as given; "": calls are exact, and there is nothing to compare them with
  std::string codec_algorithm;  // --codec-algorithm; "": the library chooses
  Data data = Data::usual;      // --data
  bool no_exact = false;        // --no-exact: with a codec, leave the exact calls out

  std::vector<std::string> notes;  ///< accepted options that have no effect here

  [[nodiscard]] bool coded() const { return !codec.empty(); }
  /// The size after `bytes` in the sweep.
  [[nodiscard]] uint64_t next(uint64_t bytes) const { return step_factor > 1 ? bytes * step_factor : bytes + step_bytes; }
};

/// What parsing came to: options, or a text to print and a code to exit with.
struct Parsed {
  std::optional<Options> options;
  std::string text;
  int exit_code = 0;
};

/// Parses a command line for the program that measures `title` ("AllReduce"), which goes through codecs or does not. Bad values and
/// unknown options exit with 255, what hosts cannot do with 5, --help with 0.
Parsed parse_options(std::string_view title, bool with_codecs, int argc, const char* const* argv);

/// "32M", "1.5K", "8" -> bytes (binary units K, M, G).
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace sweep
