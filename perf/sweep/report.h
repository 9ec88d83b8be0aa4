// SPDX-License-Identifier: Apache-2.0
// Where results go: the table and the JSON file, on the first process only; elsewhere nothing is written. Called by the first
// worker of a process, and by whoever has to give up.
#pragma once

#include <memory>
#include <mutex>

#include "failure.h"
#include "json_report.h"
#include "table.h"

namespace sweep {

class Report {
 public:
  /// Writes nothing unless `speaks`.
  Report(const Options& options, int argc, const char* const* argv, const std::vector<std::string>& environment, bool speaks);

  void header(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places);
  void columns();
  void begin(const Line& line);
  /// null: the collective has no in-place form.
  void half(bool in_place, const Measurement* measurement);
  void end();
  void finish(const Summary& summary, const std::vector<std::string>& facts, const std::string& last_error);
  /// Says why on standard error, writes the JSON file as far as it goes and exits at once: other threads may be stuck in calls.
  /// The first caller wins; others wait for the end.
  [[noreturn]] void give_up(const std::string& program, const Failure& failure);

 private:
  std::unique_ptr<Table> table_;
  std::unique_ptr<JsonReport> json_;
  std::mutex giving_up_;
};

}  // namespace sweep
