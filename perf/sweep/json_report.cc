// SPDX-License-Identifier: Apache-2.0
// The JSON file (see json_report.h). Booleans are strings and the root is padded, as readers of nccl-tests' files expect.
#include "json_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "time_of_day.h"

namespace sweep {
namespace {

constexpr int kFileVersion = 3;
constexpr double kMicroseconds = 1e6;

const char* text_of(bool value) { return value ? "true" : "false"; }

/// Creates `wanted`, or wanted.0, wanted.1, ... whichever does not exist yet; "" if that cannot be done.
std::string claim(const std::string& wanted) {
  std::string path = wanted;
  for (int attempt = 0;; ++attempt) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) {
      close(file);
      fmt::print("# Writing JSON output to {}\n", path);
      return path;
    }
    if (errno != EEXIST) break;
    path = fmt::format("{}.{}", wanted, attempt);
  }
  fmt::print("# skipping json output; {} not accessible: {}\n", path, std::strerror(errno));
  return "";
}

std::vector<double> in_microseconds(const std::vector<double>& seconds) {
  std::vector<double> result;
  result.reserve(seconds.size());
  for (double time : seconds) result.push_back(time * kMicroseconds);
  return result;
}

}  // namespace

JsonReport::JsonReport(const Options& options, int argc, const char* const* argv, const std::vector<std::string>& environment)
    : options_(options), path_(options.json_file.empty() ? "" : claim(options.json_file)) {
  document_["version"] = kFileVersion;
  document_["start_time"] = time_of_day();
  document_["args"] = std::vector<std::string>(argv, argv + argc);
  document_["env"] = environment;
}

void JsonReport::config(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places) {
  document_["nccl_version"] = library_version;
  Json config;
  config["nthreads"] = options_.threads;
  config["ngpus"] = options_.ranks_per_thread;
  config["minimum_bytes"] = options_.min_bytes;
  config["maximum_bytes"] = options_.max_bytes;
  if (options_.step_factor > 1) {
    config["step_factor"] = options_.step_factor;
  } else {
    config["step_bytes"] = options_.step_bytes;
  }
  config["warmup_iters"] = options_.warmup_iterations;
  config["iterations"] = options_.iterations;
  config["aggregated_iterations"] = options_.aggregated;
  config["validation"] = options_.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = text_of(options_.blocking != 0);
  config["per_iter_timing"] = text_of(options_.per_iteration);
  config["per_iter_skip"] = options_.skip_iterations;
  config["parallel_init"] = text_of(options_.parallel_init);
  config["devices"] = Json::array();
  for (const RankPlace& place : places) {
    config["devices"].push_back({{"rank", place.rank},
                                 {"group", 0},
                                 {"pid", place.pid},
                                 {"hostname", place.host},
                                 {"device", place.device},
                                 {"device_hex", place.slot},
                                 {"device_info", place.cpu}});
  }
  if (options_.coded()) {
    config["codec"] = options_.codec;
    config["data"] = options_.data == Data::gaussian ? "gaussian" : "usual";
  }
  document_["config"] = std::move(config);
  document_["isthmus"] = {{"facts", facts}, {"notes", options_.notes}};
  document_["results"] = Json::array();
}

void JsonReport::begin(const Line& line) {
  row_ = Json::object();
  row_["size"] = line.bytes;
  row_["count"] = line.count;
  row_["type"] = line.type;
  row_["redop"] = line.op;
  row_["root"] = fmt::format("{:6}", line.root);
}

void JsonReport::half(bool in_place, const Measurement* measurement) {
  const std::string key = in_place ? "in_place" : "out_of_place";
  if (measurement == nullptr) {
    row_[key] = nullptr;
    return;
  }
  const Measurement& m = *measurement;
  Json half;
  half[options_.report_cputime ? "cpu_time" : "time"] = m.time_s * kMicroseconds;
  half["alg_bw"] = m.algbw;
  half["bus_bw"] = m.busbw;
  half["nwrong"] = m.wrong ? Json(*m.wrong) : Json(nullptr);
  half["cpu_us_per_op"] = m.cpu_s * kMicroseconds;
  if (!m.iterations.empty()) {
    const IterationStats stats = statistics(m.iterations);
    half["p50_us"] = stats.p50 * kMicroseconds;
    half["p95_us"] = stats.p95 * kMicroseconds;
    half["p99_us"] = stats.p99 * kMicroseconds;
    half["max_us"] = stats.max * kMicroseconds;
  }
  if (m.coded) {
    add_coded(m, half);
    for (const char* worst : {"nmse", "wire_bytes"}) {  // of the two halves
      if (!row_.contains(worst) || row_[worst] < half[worst]) row_[worst] = half[worst];
    }
  }
  row_[key] = std::move(half);
  if (options_.per_iteration) row_[key + "_per_iter"] = iteration_report(m);
}

void JsonReport::add_coded(const Measurement& measurement, Json& half) {
  const Coded& coded = *measurement.coded;
  row_["codec"] = coded.codec;
  row_["codec_algorithm"] = coded.algorithm;
  const auto known = [](const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); };
  half["nmse"] = known(coded.nmse);
  half["nmse_bound"] = known(coded.nmse_bound);
  half["nmse_predicted"] = known(coded.predicted);
  half["wire_bytes"] = coded.wire_bytes ? Json(static_cast<uint64_t>(*coded.wire_bytes)) : Json(nullptr);
  if (!coded.exact_time_s) return;
  half["exact_time"] = *coded.exact_time_s * kMicroseconds;
  half["exact_alg_bw"] = coded.exact_algbw;
  half["exact_bus_bw"] = coded.exact_busbw;
  if (!coded.exact_seconds.empty()) half["exact_p50_us"] = statistics(coded.exact_seconds).p50 * kMicroseconds;
  half["speedup"] = measurement.speedup();
}

JsonReport::Json JsonReport::iteration_report(const Measurement& measurement) const {
  const IterationStats stats = statistics(measurement.iterations);
  Json report;
  report["skipped_iterations"] = options_.skip_iterations;
  report["min_us"] = stats.min * kMicroseconds;
  report["max_us"] = stats.max * kMicroseconds;
  report["avg_us"] = stats.mean * kMicroseconds;
  report["p50_us"] = stats.p50 * kMicroseconds;
  report["p95_us"] = stats.p95 * kMicroseconds;
  report["p99_us"] = stats.p99 * kMicroseconds;
  report["stdev_us"] = stats.deviation * kMicroseconds;
  report["cv_pct"] = stats.cv_percent();
  report["times_us"] = in_microseconds(measurement.iterations);
  if (measurement.coded) report["exact_times_us"] = in_microseconds(measurement.coded->exact_seconds);
  if (measurement.slices.size() > 1) {
    report["per_process_max_times_us"] = Json::array();
    for (const std::vector<double>& slice : measurement.slices) report["per_process_max_times_us"].push_back(in_microseconds(slice));
  }
  return report;
}

void JsonReport::end() {
  row_["actual_iterations"] = options_.iterations;
  row_["experiment_name"] =
      fmt::format("{}_{}_{}", row_["type"].get<std::string>(), row_["redop"].get<std::string>(), row_["size"].get<uint64_t>());
  document_["results"].push_back(std::move(row_));
}

void JsonReport::footer(const Summary& summary) {
  document_["calls"] = Json::array();
  for (const CallCount& one : summary.calls) {
    document_["calls"].push_back({{"type", one.type}, {"size", one.bytes}, {"coded", one.coded}, {"calls", one.calls}});
  }
  if (!summary.faults.empty()) document_["faults"] = summary.faults;
  document_["out_of_bounds"] = {{"count", summary.wrong}, {"okay", text_of(summary.wrong == 0)}};
  document_["average_bus_bandwidth"] = {{"bandwidth", summary.average_busbw},
                                        {"okay", summary.min_busbw ? text_of(summary.bandwidth_ok()) : "unchecked"}};
}

void JsonReport::finish(const std::string& error) {
  document_["errors"] = error.empty() ? Json::array() : Json::array({error});
  document_["end_time"] = time_of_day();
  if (path_.empty()) return;
  std::ofstream file(path_, std::ios::trunc);
  file << document_.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  if (!file.flush()) fmt::print("# JSON output to {} failed: {}\n", path_, std::strerror(errno));
}

}  // namespace sweep
