// SPDX-License-Identifier: Apache-2.0
// Where results go (see report.h).
#include "report.h"

#include <unistd.h>

#include <cstdio>

namespace sweep {

Report::Report(const Options& options, int argc, const char* const* argv, const std::vector<std::string>& environment, bool speaks) {
  if (!speaks) return;
  const std::string path = argv[0];
  table_ = std::make_unique<Table>(options, path.substr(path.rfind('/') + 1), stdout);
  if (!options.json_file.empty()) json_ = std::make_unique<JsonReport>(options, argc, argv, environment);
}

void Report::header(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places) {
  if (table_) table_->header(library_version, facts, places);
  if (json_) json_->config(library_version, facts, places);
}

void Report::columns() {
  if (table_) table_->columns();
}

void Report::begin(const Line& line) {
  if (table_) table_->begin(line);
  if (json_) json_->begin(line);
}

void Report::half(bool in_place, const Measurement* measurement) {
  if (table_) table_->half(measurement);
  if (json_) json_->half(in_place, measurement);
}

void Report::end() {
  if (table_) table_->end();
  if (json_) json_->end();
}

void Report::finish(const Summary& summary, const std::vector<std::string>& facts, const std::string& last_error) {
  if (table_) table_->footer(summary, facts, last_error);
  if (!json_) return;
  json_->footer(summary);
  json_->finish(last_error);
}

void Report::give_up(const std::string& program, const Failure& failure) {
  giving_up_.lock();  // never released: the process ends here
  std::fflush(stdout);
  if (!failure.everywhere || table_) std::fprintf(stderr, "%s: %s\n", program.c_str(), failure.text.c_str());
  if (json_) json_->finish(failure.text);
  std::fflush(nullptr);
  _exit(failure.exit_code);
}

}  // namespace sweep
