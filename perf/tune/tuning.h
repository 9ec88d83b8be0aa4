// SPDX-License-Identifier: Apache-2.0
// From a table of machines to the built-in rules: every candidate at every point of a grid is priced by the cost walk over its plans
// (or taken from measurements in the table), and the quickest become rules. Pure and deterministic. Used by perf/tune's main and by the
// test that compares its output with the committed rules. Fails on tables that it cannot read and where plans cannot be built.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "collectives/select.h"
#include "plan/cost.h"
#include "plan/rules.h"

namespace isthmus::tune {

/// What the bytes of all messages go through one after the other, besides the link between their two ranks.
enum class Port : uint8_t {
  sender,    ///< the sender's network card
  receiver,  ///< the receiver's CPU, where receivers fetch from shared memory
  shared,    ///< one CPU that serves all ranks
  line,      ///< nothing within a site, one line between the two sites that the halves of the ranks make
};

/// What messages and bytes cost between ranks that are `reach` apart.
struct Machine {
  plan::Reach reach = plan::Reach::host;
  plan::LinkCost link;  ///< between one pair of ranks (at one site)
  Port port = Port::sender;
  plan::LinkCost port_cost;
  double reduce_rate_bytes_per_s = 0;
  double copy_rate_bytes_per_s = 0;
  TimeNs step_ns = 0;
  std::vector<uint32_t> segments;  ///< tried where an algorithm has the tunable
};

/// What is to be decided: the quickest way to do this.
struct Point {
  Collective collective = Collective::allreduce;
  plan::Reach reach = plan::Reach::host;
  int32_t ranks = 1;
  uint64_t bytes = 0;

  friend bool operator<(const Point& a, const Point& b) {
    return std::tie(a.collective, a.reach, a.ranks, a.bytes) < std::tie(b.collective, b.reach, b.ranks, b.bytes);
  }
};

struct Timing {
  collectives::Choice choice;
  TimeNs time_ns = 0;
};

struct Table {
  std::vector<Machine> machines;
  std::vector<int32_t> ranks;   ///< ascending; what is quickest for one serves down to the next smaller, for the largest also all beyond
  std::vector<uint64_t> bytes;  ///< likewise
  std::map<Point, std::vector<Timing>> measured;  ///< where present, decides alone
};

/// Reads the JSON text of perf/tune/table.json.
Result<Table> parse_table(std::string_view json);

/// The quickest choices of the whole grid as rules. Of choices within 5 % of the quickest the one for the next smaller size is taken, else
/// the first in the registry's order, so that small differences decide nothing.
Result<plan::RuleTable> make_rules(const Table& table);

/// The text of collectives/default_rules.inc for these rules.
std::string to_include_file(const plan::RuleTable& rules);

}  // namespace isthmus::tune
