// SPDX-License-Identifier: Apache-2.0
// Names, words and numbers of a network of sites (see network.h).
#include "linkemu/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"

namespace linkemu {
namespace {

using isthmus::invalid_argument;
using isthmus::Result;
using isthmus::split;
using isthmus::Status;
using isthmus::trim;

constexpr std::string_view kAny = "*";
constexpr std::string_view kArrow = "->", kBothWays = "<->";
constexpr uint64_t kMostBits = 1'000'000'000'000;

/// "200M", "200Mbit", "1G", "64k" in powers of 1000, "none"
Result<uint64_t> parse_rate(std::string_view text) {
  if (text == "none") return kNoLimit;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit = isthmus::lower(text.substr(static_cast<size_t>(end - text.data())));
  if (unit.ends_with("bit")) unit.resize(unit.size() - 3);
  const uint64_t factor = unit.empty() ? 1 : unit == "k" ? 1'000 : unit == "m" ? 1'000'000 : unit == "g" ? 1'000'000'000 : 0;
  if (error != std::errc() || factor == 0 || number == 0 || number > kMostBits / factor) {
    return invalid_argument(fmt::format("rate '{}': bits per second are accepted, such as 200M, 64kbit or none", text));
  }
  return number * factor;
}

/// "0.1%" or "0.001"
Result<double> parse_chance(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const double chance = percent ? number / 100 : number;
  if (error != std::errc() || end != text.data() + text.size() || !(chance >= 0 && chance <= 1)) {
    return invalid_argument(fmt::format("loss '{}': a share from 0 to 1 is accepted, such as 0.1% or 0.001", text));
  }
  return chance;
}

std::optional<Knob> knob_named(std::string_view name) {
  constexpr std::pair<std::string_view, Knob> kKnobs[] = {
      {"rate", Knob::rate}, {"queue", Knob::queue}, {"delay", Knob::delay}, {"jitter", Knob::jitter}, {"loss", Knob::loss}};
  for (const auto& [known, knob] : kKnobs) {
    if (known == name) return knob;
  }
  return std::nullopt;
}

std::optional<Order> order_named(std::string_view name) {
  constexpr std::pair<std::string_view, Order> kOrders[] = {{"stats", Order::stats}, {"start", Order::start}, {"quit", Order::quit}};
  for (const auto& [known, order] : kOrders) {
    if (known == name) return order;
  }
  return std::nullopt;
}

nlohmann::ordered_json to_json(const Count& count) { return {{"frames", count.frames}, {"bytes", count.bytes}}; }

nlohmann::ordered_json limit_json(uint64_t limit) {
  return limit == kNoLimit ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(limit);
}

}  // namespace

Result<Network> Network::make(std::vector<std::string> sites, std::span<const std::string> cuts, uint64_t seed) {
  Network network(std::move(sites), seed);
  ISTHMUS_TRY(network.check_sites());
  for (const std::string direction : {"out:", "in:"}) {
    for (const std::string& site : network.sites_) network.queues_.push_back(direction + site);
  }
  for (size_t from = 0; from < network.sites_.size(); ++from) {
    for (size_t to = 0; to < network.sites_.size(); ++to) {
      if (from != to) network.ends_.emplace_back(from, to);
    }
  }
  network.cuts_.resize(network.ends_.size());
  for (size_t link = 0; link < network.ends_.size(); ++link) network.queues_.push_back(network.link_name(static_cast<int>(link)));
  ISTHMUS_TRY(network.add_cuts(cuts));
  network.add_links();
  return network;
}

Status Network::check_sites() const {
  if (sites_.size() < 2) return invalid_argument("links need two sites or more");
  for (const std::string& site : sites_) {
    const bool plain = !site.empty() && site.find_first_of(" \t*:,=<>-") == std::string::npos;
    if (!plain) return invalid_argument(fmt::format("site '{}': a name without blanks and any of *:,=<>-", site));
    if (std::count(sites_.begin(), sites_.end(), site) > 1) return invalid_argument(fmt::format("site '{}' is named twice", site));
  }
  return {};
}

Status Network::add_cuts(std::span<const std::string> cuts) {
  for (const std::string& cut : cuts) {
    const size_t equals = cut.find('=');
    const std::string name(trim(std::string_view(cut).substr(0, equals)));
    if (equals == std::string::npos || name.empty() || name.find_first_of("*:<>") != std::string::npos) {
      return invalid_argument(fmt::format("cut '{}': write NAME=LINKS, such as sea=a->b,a->c", cut));
    }
    if (std::find(queues_.begin(), queues_.end(), name) != queues_.end()) {
      return invalid_argument(fmt::format("cut '{}' is named twice", name));
    }
    ISTHMUS_ASSIGN(const std::vector<int> links, find_links(std::string_view(cut).substr(equals + 1)));
    for (const int link : links) cuts_[static_cast<size_t>(link)].push_back(static_cast<int>(queues_.size()));
    queues_.push_back(name);
  }
  return {};
}

void Network::add_links() {
  for (size_t queue = 0; queue < queues_.size(); ++queue) shaper_.add_queue();
  const int sites = static_cast<int>(sites_.size());
  for (size_t link = 0; link < ends_.size(); ++link) {
    std::vector<int> path = cuts_[link];
    const auto [from, to] = ends_[link];
    path.insert(path.end(), {static_cast<int>(from), 2 * sites + static_cast<int>(link), sites + static_cast<int>(to)});
    shaper_.add_link(std::move(path));
  }
}

std::string Network::link_name(int link) const {
  const auto [from, to] = ends_[static_cast<size_t>(link)];
  return sites_[from] + std::string(kArrow) + sites_[to];
}

Result<std::vector<size_t>> Network::find_sites(std::string_view pattern) const {
  std::vector<size_t> found;
  for (size_t site = 0; site < sites_.size(); ++site) {
    if (pattern == kAny || pattern == sites_[site]) found.push_back(site);
  }
  if (!found.empty()) return found;
  const std::vector<std::string_view> names(sites_.begin(), sites_.end());
  return invalid_argument(fmt::format("there is no site '{}'; there are: {}", pattern, isthmus::join(names, " ")));
}

Result<std::vector<int>> Network::find_links(std::string_view patterns) const {
  std::vector<int> found;
  for (const std::string_view pattern : split(patterns, ',')) {
    const bool both = pattern.find(kBothWays) != std::string_view::npos;
    const std::string_view arrow = both ? kBothWays : kArrow;
    const size_t at = pattern == kAny ? 0 : pattern.find(arrow);
    if (at == std::string_view::npos) return invalid_argument(fmt::format("links '{}': write a->b, a<->b, a->* or *", pattern));
    const auto left = pattern == kAny ? kAny : trim(pattern.substr(0, at));
    const auto right = pattern == kAny ? kAny : trim(pattern.substr(at + arrow.size()));
    ISTHMUS_ASSIGN(const auto from, find_sites(left));
    ISTHMUS_ASSIGN(const auto to, find_sites(right));
    for (const size_t a : from) {
      for (const size_t b : to) {
        if (a == b) continue;
        found.push_back(link(a, b));
        if (both) found.push_back(link(b, a));
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.empty()) return invalid_argument(fmt::format("'{}' names no link", patterns));
  return found;
}

Result<std::vector<int>> Network::find_queues(std::string_view pattern) const {
  const int sites = static_cast<int>(sites_.size());
  std::vector<int> found;
  for (const auto& [prefix, first] : {std::pair<std::string_view, int>{"out:", 0}, {"in:", sites}}) {
    if (!pattern.starts_with(prefix)) continue;
    ISTHMUS_ASSIGN(const auto named, find_sites(pattern.substr(prefix.size())));
    for (const size_t site : named) found.push_back(first + static_cast<int>(site));
    return found;
  }
  const auto cut = std::find(queues_.begin() + 2 * sites + static_cast<int>(ends_.size()), queues_.end(), pattern);
  if (cut != queues_.end()) return std::vector<int>{static_cast<int>(cut - queues_.begin())};
  ISTHMUS_ASSIGN(found, find_links(pattern));
  for (int& link : found) link += 2 * sites;
  return found;
}

Result<Change> Network::parse_change(std::string_view knob_name, std::string_view where, std::string_view value) const {
  const auto knob = knob_named(knob_name);
  if (!knob) {
    return invalid_argument(fmt::format("'{}': rate, queue, delay, jitter, loss, stats, start and quit are accepted", knob_name));
  }
  Change change{.knob = *knob, .targets = {}, .number = 0, .chance = 0};
  if (knob == Knob::rate || knob == Knob::queue) {
    ISTHMUS_ASSIGN(change.targets, find_queues(where));
  } else {
    ISTHMUS_ASSIGN(change.targets, find_links(where));
  }
  if (knob == Knob::rate) {
    ISTHMUS_ASSIGN(change.number, parse_rate(value));
  } else if (knob == Knob::queue) {
    change.number = kNoLimit;
    if (value != "none") {
      ISTHMUS_ASSIGN(change.number, isthmus::parse_bytes(value));
    }
  } else if (knob == Knob::loss) {
    ISTHMUS_ASSIGN(change.chance, parse_chance(value));
  } else {
    ISTHMUS_ASSIGN(const TimeNs duration, isthmus::parse_duration(value));
    if (duration > 3600 * isthmus::kSecondNs) return invalid_argument(fmt::format("{} '{}': an hour at most", knob_name, value));
    change.number = static_cast<uint64_t>(duration);
  }
  return change;
}

Result<Command> Network::parse(std::string_view line) const {
  Command command{.after_ns = 0, .what = Order::stats};
  std::string_view rest = trim(line);
  if (rest.starts_with("at ")) {
    const size_t colon = rest.find(':');
    if (colon == std::string_view::npos) return invalid_argument(fmt::format("'{}': write 'at TIME: COMMAND'", rest));
    ISTHMUS_ASSIGN(command.after_ns, isthmus::parse_duration(trim(rest.substr(3, colon - 3))));
    rest = trim(rest.substr(colon + 1));
  }
  const std::vector<std::string_view> words = split(rest, ' ');
  if (words.size() == 1) {
    if (const auto order = order_named(words[0])) {
      command.what = *order;
      return command;
    }
  }
  if (words.size() != 3) return invalid_argument(fmt::format("'{}': write KNOB WHERE VALUE, such as 'rate a->b 50M'", rest));
  ISTHMUS_ASSIGN(command.what, parse_change(words[0], words[1], words[2]));
  return command;
}

Result<std::vector<Command>> Network::parse_script(std::string_view text) const {
  std::vector<Command> commands;
  int number = 0;
  for (const std::string_view line : isthmus::lines_of(text)) {
    ++number;
    if (trim(line).empty() || trim(line).starts_with('#')) continue;
    auto command = parse(line);
    if (!command.ok()) return command.status().with_context(fmt::format("line {}", number));
    commands.push_back(std::move(*command));
  }
  return commands;
}

void Network::apply(const Change& change, TimeNs now) {
  for (const int target : change.targets) {
    if (change.knob == Knob::rate || change.knob == Knob::queue) {
      QueueSettings settings = shaper_.queue_settings(target);
      (change.knob == Knob::rate ? settings.rate_bits_per_s : settings.limit_bytes) = change.number;
      shaper_.set_queue(target, settings, now);
      continue;
    }
    LineSettings settings = shaper_.line_settings(target);
    if (change.knob == Knob::loss) {
      settings.loss = change.chance;
    } else {
      (change.knob == Knob::delay ? settings.delay_ns : settings.jitter_ns) = static_cast<TimeNs>(change.number);
    }
    shaper_.set_line(target, settings, now);
  }
}

std::string Network::report() const {
  nlohmann::ordered_json links = nlohmann::ordered_json::object(), queues = nlohmann::ordered_json::object();
  for (int link = 0; link < static_cast<int>(ends_.size()); ++link) {
    const LineSettings& line = shaper_.line_settings(link);
    const LinkCounters& counters = shaper_.counters(link);
    links[link_name(link)] = {{"delay_ns", line.delay_ns},
                              {"jitter_ns", line.jitter_ns},
                              {"loss", line.loss},
                              {"taken", to_json(counters.taken)},
                              {"delivered", to_json(counters.delivered)},
                              {"dropped", to_json(counters.dropped)},
                              {"lost", to_json(counters.lost)}};
  }
  for (int queue = 0; queue < static_cast<int>(queues_.size()); ++queue) {
    const QueueSettings& settings = shaper_.queue_settings(queue);
    queues[queues_[static_cast<size_t>(queue)]] = {{"rate_bits_per_s", limit_json(settings.rate_bits_per_s)},
                                                   {"limit_bytes", limit_json(settings.limit_bytes)},
                                                   {"most_queued_bytes", shaper_.most_queued_bytes(queue)}};
  }
  return nlohmann::ordered_json{{"links", links}, {"queues", queues}}.dump();
}

}  // namespace linkemu
