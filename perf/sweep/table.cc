// SPDX-License-Identifier: Apache-2.0
// The table on standard output (see table.h).
#include "table.h"

#include <fmt/format.h>

#include <cmath>

#include "isthmus.h"
#include "time_of_day.h"

namespace sweep {
namespace {

constexpr double kMicroseconds = 1e6;

constexpr int kCodedWidth = 2 + 8 + 2 + 7 + 2 + 6 + 2 + 7;  // of one half's columns

std::string coded_columns(bool units) {
  return units ? fmt::format("  {:>8}  {:>7}  {:>6}  {:>7}", "", "(us)", "(GB/s)", "")
               : fmt::format("  {:>8}  {:>7}  {:>6}  {:>7}", "nmse", "exact", "busbw", "speedup");
}

std::string column(double seconds) { return fmt::format("  {}", fixed_width(seconds * kMicroseconds, 7)); }

}  // namespace

std::string fixed_width(double value, int width) {
  int digits = 1;  // before the point
  for (double limit = 10; value >= limit; limit *= 10) ++digits;
  if (digits < width - 2) return fmt::format("{:{}.2f}", value, width);
  if (digits < width - 1) return fmt::format("{:{}.1f}", value, width);
  if (digits <= width) return fmt::format("{:{}.0f}", value, width);
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

void Table::header(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places) {
  put(fmt::format("# nccl-tests version 2.19.6 (the format; isthmus {}.{}.{}) nccl-headers={} nccl-library={}\n", ISTHMUS_MAJOR,
                  ISTHMUS_MINOR, ISTHMUS_PATCH, NCCL_VERSION_CODE, library_version));
  put(fmt::format("# Collective test starting: {}\n", program_));
  const bool factor = options_.step_factor > 1;
  put(
      fmt::format("# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} validation: {} "
                  "graph: 0 unalign: {}\n",
                  options_.threads, options_.ranks_per_thread, options_.min_bytes, options_.max_bytes,
                  factor ? options_.step_factor : options_.step_bytes, factor ? "factor" : "bytes", options_.warmup_iterations,
                  options_.iterations, options_.aggregated, options_.checks, options_.unalign));
  if (options_.blocking == 1) put("# Blocking Enabled: wait for completion and barrier after each collective \n");
  if (options_.blocking > 1) put("# Blocking Enabled: wait for completion after each collective (no barrier) \n");
  if (options_.per_iteration)
    put("# Per-Iteration Report: each iteration completed and timed; i_* uses the slowest rank of each iteration\n");
  if (options_.parallel_init) put("# Parallel Init Enabled: threads call into NcclInitRank concurrently \n");
  for (const std::string& fact : facts) put("# " + fact + "\n");
  if (options_.coded()) {
    put(fmt::format(
        "# Codec: {}{}; elements: {}; calls with and without it in turn, each completed. --help explains the columns at the right\n",
        options_.codec, options_.codec_algorithm.empty() ? "" : ", algorithm " + options_.codec_algorithm,
        options_.data == Data::gaussian ? "gaussian" : "as usual"));
  }
  for (const std::string& note : options_.notes) put("# Note: " + note + "\n");
  put("#\n# Using devices\n");
  for (const RankPlace& place : places) {
    put(fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", place.rank, 0, place.pid, place.host, place.device,
                    place.slot, place.cpu));
  }
}

std::string Table::half_columns(bool units) const {
  const auto pick = [&](const char* name, const char* unit) { return units ? unit : name; };
  std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", pick(options_.report_cputime ? "cputime" : "time", "(us)"),
                                 pick("algbw", "(GB/s)"), pick("busbw", "(GB/s)"), pick("#wrong", ""));
  if (options_.per_iteration) {
    for (const char* name : {"i_min", "i_max", "i_p99"}) text += fmt::format("  {:>7}", pick(name, "(us)"));
    text += fmt::format("  {:>7}", pick("i_cv%", "(%)"));
  }
  if (options_.percentiles) {
    for (const char* name : {"p50", "p95", "p99"}) text += fmt::format("  {:>7}", pick(name, "(us)"));
  }
  if (options_.cpu_per_op) text += fmt::format("  {:>7}", pick("cpu", "(us)"));
  return text;
}

void Table::columns() {
  const std::string names = half_columns(false);
  const std::string units = half_columns(true);
  const std::string stamp = options_.timestamps ? fmt::format("  {:>19}", "timestamp") : "";
  const bool coded = options_.coded();
  const auto pair = [&](const std::string& first, const std::string& text) {
    return coded ? fmt::format("  {:>11}{}{}", first, text, text) : "";
  };
  const auto left = [](const char* a, const char* b) { return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", a, b, "", "", ""); };
  put("#\n");
  put(left("", "") + fmt::format("{:^{}}{:^{}}", "out-of-place", names.size(), "in-place", names.size()));
  if (coded) put(fmt::format("{:13}{:^{}}{:^{}}", "", "out-of-place, codec", kCodedWidth, "in-place, codec", kCodedWidth));
  put("\n");
  put(fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}{}\n", "size", "count", "type", "redop", "root", names, names,
                  pair("wire", coded_columns(false)), stamp));
  put(left("(B)", "(elements)") + units + units + pair("(B)", coded_columns(true)) + "\n");
}

void Table::begin(const Line& line) {
  halves_.clear();
  put(fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", line.bytes, line.count, line.type, line.op, line.root));
  std::fflush(out_);
}

void Table::half(const Measurement* measurement) {
  const auto blank = [&](int columns) {
    for (int at = 0; at < columns; ++at) put(fmt::format("  {:>7}", "N/A"));
  };
  if (measurement == nullptr) {
    put(fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A"));
    blank((options_.per_iteration ? 4 : 0) + (options_.percentiles ? 3 : 0) + (options_.cpu_per_op ? 1 : 0));
    return;
  }
  const Measurement& m = *measurement;
  put(fmt::format("  {}  {}  {}  {:>6}", fixed_width(m.time_s * kMicroseconds, 7), fixed_width(m.algbw, 6), fixed_width(m.busbw, 6),
                  m.wrong ? fmt::format("{:g}", *m.wrong) : "N/A"));
  if (!m.iterations.empty()) {
    const IterationStats stats = statistics(m.iterations);
    if (options_.per_iteration) {
      put(column(stats.min) + column(stats.max) + column(stats.p99) + fmt::format("  {}", fixed_width(stats.cv_percent(), 7)));
    }
    if (options_.percentiles) put(column(stats.p50) + column(stats.p95) + column(stats.p99));
  }
  if (options_.cpu_per_op) put(column(m.cpu_s));
  if (m.coded) halves_.push_back(m);
  std::fflush(out_);
}

/// Both halves' columns come after nccl-tests' own, whose places so stay the same.
void Table::put_coded() {
  std::optional<double> wire;
  for (const Measurement& m : halves_) wire = std::max(wire, m.coded->wire_bytes);
  put(fmt::format("  {:>11}", wire ? fmt::format("{:.0f}", *wire) : "N/A"));
  for (const Measurement& m : halves_) {
    const Coded& coded = *m.coded;
    put(fmt::format("  {:>8}", coded.nmse ? fmt::format("{:.2e}", *coded.nmse) : "N/A"));
    put(coded.exact_time_s ? fmt::format("  {}  {}  {}", fixed_width(*coded.exact_time_s * kMicroseconds, 7),
                                         fixed_width(coded.exact_busbw, 6), fixed_width(m.speedup(), 7))
                           : fmt::format("  {:>7}  {:>6}  {:>7}", "N/A", "N/A", "N/A"));
  }
}

void Table::end() {
  if (!halves_.empty()) put_coded();
  if (options_.timestamps) put("  " + time_of_day());
  put("\n");
  std::fflush(out_);
}

void Table::footer(const Summary& summary, const std::vector<std::string>& facts, const std::string& last_error) {
  for (const std::string& fault : summary.faults) put("# Wrong: " + fault + "\n");
  put(fmt::format("# Out of bounds values : {} {}\n", summary.wrong, summary.wrong == 0 ? "OK" : "FAILED"));
  const char* verdict = !summary.min_busbw ? "" : summary.bandwidth_ok() ? "OK" : "FAILED";
  put(fmt::format("# Avg bus bandwidth    : {:g} {}\n", summary.average_busbw, verdict));
  for (const std::string& fact : facts) put("# " + fact + "\n");
  put(fmt::format("#\n# Collective test concluded: {}\n", program_));
  put(last_error.empty() ? "\n" : "# error: " + last_error + "\n");
  put("#\n");
  std::fflush(out_);
}

}  // namespace sweep
