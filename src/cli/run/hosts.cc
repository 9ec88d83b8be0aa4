// SPDX-License-Identifier: Apache-2.0
// Which rank runs where (see hosts.h).
#include "cli/run/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kPlaceholder = "{host}";

struct HostWord {
  std::string name;
  int ranks = 0;  ///< 0: not said
};

Result<HostWord> parse_host(std::string_view word) {
  const size_t colon = word.rfind(':');
  if (colon == std::string_view::npos) return HostWord{.name = std::string(word)};
  const Result<uint64_t> ranks = parse_unsigned(word.substr(colon + 1), kMaxRanks);
  if (!ranks.ok() || *ranks == 0 || colon == 0) {
    return invalid_argument(fmt::format("--hosts: '{}' is neither HOST nor HOST:RANKS", word));
  }
  return HostWord{.name = std::string(word.substr(0, colon)), .ranks = static_cast<int>(*ranks)};
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._-@").find(c) != std::string_view::npos;
  });
}

/// How many of `ranks` host `index` of `hosts` takes in an even division.
int even_share(int ranks, size_t hosts, size_t index) {
  const int n = static_cast<int>(hosts);
  return ranks / n + (static_cast<int>(index) < ranks % n ? 1 : 0);
}

}  // namespace

Result<std::vector<Placement>> place_ranks(std::string_view hosts, int ranks) {
  if (ranks < 0 || ranks > kMaxRanks) return invalid_argument(fmt::format("-n {}: between 1 and {} ranks", ranks, kMaxRanks));
  if (trim(hosts).empty()) {
    if (ranks == 0) return invalid_argument("-n says how many ranks to start; it is missing");
    return std::vector<Placement>{{.host = "", .first = 0, .count = ranks}};
  }
  std::vector<HostWord> words;
  for (std::string_view word : split(hosts, ',')) {
    ISTHMUS_ASSIGN(words.emplace_back(), parse_host(word));
  }
  const auto counted = static_cast<size_t>(std::count_if(words.begin(), words.end(), [](const HostWord& word) { return word.ranks > 0; }));
  const int sum = std::accumulate(words.begin(), words.end(), 0, [](int total, const HostWord& word) { return total + word.ranks; });
  if (counted != 0 && counted != words.size()) return invalid_argument("--hosts: give the number of ranks for every host or for none");
  if (counted == 0 && ranks == 0) return invalid_argument("-n says how many ranks to start; it is missing");
  if (counted != 0 && ranks != 0 && ranks != sum) return invalid_argument(fmt::format("-n {} but --hosts has room for {}", ranks, sum));
  std::vector<Placement> placements;
  int first = 0;
  for (size_t at = 0; at < words.size(); ++at) {
    const int count = counted != 0 ? words[at].ranks : even_share(ranks, words.size(), at);
    if (count > 0) placements.push_back({.host = words[at].name, .first = first, .count = count});
    first += count;
  }
  return placements;
}

Result<std::string> agent_command(std::string_view agent, std::string_view host) {
  if (!is_plain_name(host)) return invalid_argument(fmt::format("--hosts: '{}' is no host name (letters, digits, . _ - @)", host));
  std::string command(agent);
  size_t at = command.find(kPlaceholder);
  if (at == std::string::npos) {
    return invalid_argument(
        fmt::format("--agent '{}' does not say where the host's name goes; write {{host}}, as in 'ssh {{host}}'", agent));
  }
  for (; at != std::string::npos; at = command.find(kPlaceholder, at + host.size())) command.replace(at, kPlaceholder.size(), host);
  return command;
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace isthmus::cli
