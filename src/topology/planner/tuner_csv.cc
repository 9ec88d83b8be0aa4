// SPDX-License-Identifier: Apache-2.0
// NCCL's tuner tables. See tuner_csv.h.
#include "topology/planner/tuner_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "collectives/registry.h"

namespace isthmus::topology {
namespace {

constexpr std::array kPlanned = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::broadcast,
                                 Collective::reduce};
constexpr size_t kLeastFields = 8;

/// As NCCL writes it, without an underscore.
std::string nccl_name(Collective collective) {
  std::string name(name_of(collective));
  std::erase(name, '_');
  return name;
}

std::optional<Collective> collective_named(std::string_view name) {
  const auto* const found = std::find_if(kPlanned.begin(), kPlanned.end(), [&](Collective each) { return nccl_name(each) == name; });
  return found == kPlanned.end() ? std::nullopt : std::optional(*found);
}

/// The nearest that we have to NCCL's algorithm; null: nothing.
const plan::Algorithm* counterpart(Collective collective, std::string_view algorithm, const Layout& layout) {
  const bool several = layout.count(Level::building) > 1;
  const bool rooted = is_rooted(collective);
  if (algorithm == "ring") return collectives::find(collective, rooted ? "chain" : "ring");
  if (algorithm == "tree" && several) return collectives::find(collective, "hierarchy");
  if (algorithm == "tree") return collectives::find(collective, rooted ? "binomial" : "halving_doubling");
  if (algorithm == "pat") return collectives::find(collective, collective == Collective::allgather ? "doubling" : "halving");
  return nullptr;
}

bool is_wildcard(std::string_view field) { return field == "-1"; }

/// -1 is any.
Result<bool> fits(std::string_view field, int32_t value) {
  if (is_wildcard(field)) return true;
  ISTHMUS_ASSIGN(const uint64_t number, parse_unsigned(field, INT32_MAX));
  return number == static_cast<uint64_t>(value);
}

Result<std::optional<Pin>> parse_line(std::string_view line, const Layout& layout, std::vector<std::string>& warnings) {
  std::vector<std::string_view> fields = split(line, ',');
  if (fields.size() < kLeastFields) {
    return invalid_argument(fmt::format("{} fields; at least {} are accepted: collective,min,max,algorithm,protocol,channels,nodes,ranks",
                                        fields.size(), kLeastFields));
  }
  const auto collective = collective_named(lower(fields[0]));
  if (!collective)
    return invalid_argument(fmt::format("'{}' is none of allreduce, reducescatter, allgather, broadcast, reduce", fields[0]));
  Pin pin{.collective = *collective, .choice = {}};
  ISTHMUS_ASSIGN(pin.min_bytes, parse_unsigned(fields[1], UINT64_MAX));
  ISTHMUS_ASSIGN(pin.max_bytes, parse_unsigned(fields[2], UINT64_MAX));
  if (pin.max_bytes < pin.min_bytes) return invalid_argument("the most bytes are fewer than the least");
  ISTHMUS_ASSIGN(const bool hosts_fit, fits(fields[6], layout.count(Level::host)));
  ISTHMUS_ASSIGN(const bool ranks_fit, fits(fields[7], layout.ranks()));
  if (!hosts_fit || !ranks_fit) return std::optional<Pin>();
  pin.choice.algorithm = counterpart(*collective, lower(fields[3]), layout);
  if (pin.choice.algorithm != nullptr && serves(*pin.choice.algorithm, layout.ranks())) return std::optional(pin);
  warnings.push_back(fmt::format("{} has nothing like {}; left aside", name_of(*collective), fields[3]));
  return std::optional<Pin>();
}

}  // namespace

std::string to_tuner_csv(const PlanFile& file, int32_t hosts) {
  std::string text = fmt::format(
      "# {}; every algorithm but a ring is NCCL's tree here\n"
      "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered\n",
      file.layout);
  for (const Interval& one : file.intervals) {
    if (std::find(kPlanned.begin(), kPlanned.end(), one.collective) == kPlanned.end()) continue;  // NCCL has no algorithms for it
    const std::string_view name = one.choice.algorithm->name;
    const bool ring = name == "ring" || name == "chain";
    text += fmt::format("{},{},{},{},simple,-1,{},{},-1,-1\n", nccl_name(one.collective), one.min_bytes, one.max_bytes,
                        ring ? "ring" : "tree", hosts, file.ranks);
  }
  return text;
}

Result<std::vector<Pin>> parse_tuner_csv(std::string_view text, const Layout& layout, std::vector<std::string>& warnings) {
  std::vector<Pin> pins;
  size_t number = 0;
  for (const std::string_view whole : lines_of(text)) {
    const std::string_view line = trim(whole);
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const size_t said = warnings.size();
    auto pin = parse_line(line, layout, warnings);
    if (!pin.ok()) return pin.status().with_context(fmt::format("line {}", number));
    for (size_t at = said; at < warnings.size(); ++at) warnings[at].insert(0, fmt::format("line {}: ", number));
    if (*pin) pins.push_back(**pin);
  }
  return pins;
}

}  // namespace isthmus::topology
