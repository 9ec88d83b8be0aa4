// SPDX-License-Identifier: Apache-2.0
// Sites with a link from each to each other, and the words that change them: "rate out:a 200M", "at 3s: delay a<->b 40ms". Used by
// linkemu's loop and by unit tests. Pure. Parsing fails with invalid_argument whose text says what is accepted; nothing else fails.
//
// A frame from a to b passes the queue of every cut that was named for the link, then out:a, the link's own, and in:b.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "linkemu/shaper.h"

namespace linkemu {

enum class Knob : uint8_t { rate, queue, delay, jitter, loss };

/// Of some links' or queues' settings.
struct Change {
  Knob knob;
  std::vector<int> targets;  ///< links for delay, jitter and loss; queues for rate and queue
  uint64_t number = 0;       ///< bit/s, bytes or ns; kNoLimit for "none"
  double chance = 0;         ///< of loss
};
/// `stats`: the counters so far. `start`: the script's clock begins. `quit`: the end.
enum class Order : uint8_t { stats, start, quit };
struct Command {
  TimeNs after_ns = 0;  ///< since the command was given; of a script, since its start
  std::variant<Change, Order> what;
};

class Network {
 public:
  /// Sites "a", "b" and so on, at least two; cuts "NAME=a->b,c->d", groups of links that share a queue.
  static isthmus::Result<Network> make(std::vector<std::string> sites, std::span<const std::string> cuts, uint64_t seed);

  [[nodiscard]] const std::vector<std::string>& sites() const { return sites_; }
  /// Requires two different sites.
  [[nodiscard]] int link(size_t from, size_t to) const { return static_cast<int>(from * (sites_.size() - 1) + to - (to > from ? 1 : 0)); }
  [[nodiscard]] size_t destination(int link) const { return ends_[static_cast<size_t>(link)].second; }
  [[nodiscard]] Shaper& shaper() { return shaper_; }
  [[nodiscard]] const Shaper& shaper() const { return shaper_; }

  /// "[at TIME:] KNOB WHERE VALUE", or an order.
  [[nodiscard]] isthmus::Result<Command> parse(std::string_view line) const;
  /// Every line's command; an error names its line. Blank lines and those that begin with # are left out.
  [[nodiscard]] isthmus::Result<std::vector<Command>> parse_script(std::string_view text) const;
  void apply(const Change& change, TimeNs now);
  /// One line of JSON: each link's and queue's settings and counters.
  [[nodiscard]] std::string report() const;

 private:
  Network(std::vector<std::string> sites, uint64_t seed) : sites_(std::move(sites)), shaper_(seed) {}

  isthmus::Status check_sites() const;
  isthmus::Status add_cuts(std::span<const std::string> cuts);
  void add_links();
  [[nodiscard]] std::string link_name(int link) const;
  [[nodiscard]] isthmus::Result<std::vector<size_t>> find_sites(std::string_view pattern) const;
  [[nodiscard]] isthmus::Result<std::vector<int>> find_links(std::string_view pattern) const;
  [[nodiscard]] isthmus::Result<std::vector<int>> find_queues(std::string_view pattern) const;
  [[nodiscard]] isthmus::Result<Change> parse_change(std::string_view knob, std::string_view where, std::string_view value) const;

  std::vector<std::string> sites_;
  std::vector<std::pair<size_t, size_t>> ends_;  // by link: from, to
  std::vector<std::string> queues_;              // their names
  std::vector<std::vector<int>> cuts_;           // by link: the named cuts that it passes
  Shaper shaper_;
};

}  // namespace linkemu
