// SPDX-License-Identifier: Apache-2.0
// Which rank runs where: the text of --hosts, and the even distribution of ranks over hosts in blocks. Pure; parsing fails
// with the word that is wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus::cli {

inline constexpr int kMaxRanks = 1 << 16;  ///< of a job

/// Ranks [first, first + count) on one host. An empty name is this machine, reached without an agent.
struct Placement {
  std::string host;
  int first = 0;
  int count = 0;
};

/// `hosts` is "" or a list such as "a,b" or "a:2,b:4" (the ranks of each); `ranks` 0 means as many as the list says. Without numbers
/// ranks are divided evenly, the first hosts taking one more where that does not come out even. Hosts without a rank are left out.
Result<std::vector<Placement>> place_ranks(std::string_view hosts, int ranks);

/// `agent` with every {host} replaced. Fails where there is none, and for names that a shell would not take as one plain word.
Result<std::string> agent_command(std::string_view agent, std::string_view host);

/// `text` as one word of a shell.
std::string shell_quoted(std::string_view text);

}  // namespace isthmus::cli
