// SPDX-License-Identifier: Apache-2.0
// The JSON file (-J): nccl-tests' version 3 document with a few keys more. The name is claimed at the start, never overwriting:
// FILE, FILE.0, FILE.1, ...; the document is written at the end, also after a failure. A file that cannot be made is said on
// standard output and skipped, as nccl-tests does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "options.h"
#include "results.h"

namespace sweep {

class JsonReport {
 public:
  /// Claims the name and says which. `environment` holds "NAME=value" lines.
  JsonReport(const Options& options, int argc, const char* const* argv, const std::vector<std::string>& environment);

  /// `facts` go to a key of our own, "isthmus".
  void config(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places);
  void begin(const Line& line);
  void half(bool in_place, const Measurement* measurement);
  void end();
  void footer(const Summary& summary);
  /// Adds what went wrong ("" adds nothing) and writes the file.
  void finish(const std::string& error);

 private:
  using Json = nlohmann::ordered_json;
  void add_coded(const Measurement& measurement, Json& half);
  [[nodiscard]] Json iteration_report(const Measurement& measurement) const;

  const Options& options_;
  std::string path_;  ///< "": no file
  Json document_, row_;
};

}  // namespace sweep
