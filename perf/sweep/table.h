// SPDX-License-Identifier: Apache-2.0
// The table on standard output, in nccl-tests' columns, widths and footer, so that scripts that read theirs read ours. Extra columns
// appear only when asked for. Called by the report of the first process's first thread.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "options.h"
#include "results.h"

namespace sweep {

/// `value` in `width` characters with as many decimals as fit ("12.34", "123.4", "12345", "1.2e+09").
std::string fixed_width(double value, int width);

class Table {
 public:
  Table(const Options& options, std::string program, std::FILE* out) : options_(options), program_(std::move(program)), out_(out) {}

  /// Everything above the table. `facts` are further lines ("Streams: ...").
  void header(int library_version, const std::vector<std::string>& facts, const std::vector<RankPlace>& places);
  void columns();
  void begin(const Line& line);
  /// A row's half; null where it does not apply (send/recv in place).
  void half(const Measurement* measurement);
  void end();
  void footer(const Summary& summary, const std::vector<std::string>& facts, const std::string& last_error);

 private:
  void put(const std::string& text) { std::fputs(text.c_str(), out_); }
  [[nodiscard]] std::string half_columns(bool units) const;
  void put_coded();

  const Options& options_;
  std::string program_;
  std::FILE* out_;
  std::vector<Measurement> halves_;  ///< of the row so far, for what comes at its end
};

}  // namespace sweep
