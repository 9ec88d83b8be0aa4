// SPDX-License-Identifier: Apache-2.0
// What a rank of `isthmus topo` finds out, how it travels to rank 0 (as JSON), and what is made of all ranks' records. Decoding fails on
// anything that encode() does not write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/drawing.h"
#include "topology/host.h"
#include "topology/model.h"

namespace isthmus::cli {

struct TopoRecord {
  topology::Place place;
  std::vector<std::string> warnings;
  std::optional<topology::Part> inside;  ///< of one rank of each host
  std::string ucx_address;               ///< that rank's, if UCX is there: bytes
};

/// How UCX would reach a host from rank 0's.
struct UcxWay {
  std::string host;
  std::vector<std::string> lanes;  ///< the one for small messages first
  std::string trouble;             ///< why there are none
};

std::string encode(const TopoRecord& record);
Result<TopoRecord> decode_record(std::string_view text);

/// All that is known about the ranks: one of them where `is_job` is false.
struct TopoReport {
  std::vector<TopoRecord> records;  ///< by rank
  std::vector<UcxWay> ways;         ///< to the other hosts where rank 0 has UCX
  bool is_job = false;

  /// Ranks that speak for hosts with UCX other than that of rank 0, by host.
  [[nodiscard]] std::vector<int32_t> ucx_peers() const;
  /// The ranks' own warnings, each once, and what does not fit together.
  [[nodiscard]] std::vector<std::string> warnings() const;
  /// With what is in the hosts if `inside`.
  [[nodiscard]] topology::Box box(bool inside) const;
  /// Which ranks communicators take for one site.
  [[nodiscard]] std::string sites_text() const;
  /// A line for each set of lanes and the hosts that it leads to; empty without UCX.
  [[nodiscard]] std::string ways_text() const;
  /// One JSON document, indented.
  [[nodiscard]] std::string json() const;

 private:
  [[nodiscard]] std::vector<topology::Place> places() const;
};

}  // namespace isthmus::cli
