// SPDX-License-Identifier: Apache-2.0
// Trees and hosts as boxes, and boxes as lines of text. See drawing.h; svg.cc draws.
#include "topology/drawing.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/text.h"

namespace isthmus::topology {
namespace {

std::string counted(size_t number, std::string_view what) { return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s"); }

size_t hosts_in(const Node& node) {
  if (node.level == Level::host) return 1;
  size_t hosts = 0;
  for (const Node& child : node.children) hosts += hosts_in(child);
  return hosts;
}

std::string ranks_text(const std::vector<int32_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_ranges(ranks));
}

void add(std::string& note, std::string_view more) {
  if (more.empty()) return;
  if (!note.empty()) note += ", ";
  note += more;
}

/// "15.6 GiB", "32 MiB", "512 KiB".
std::string size_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  const bool whole = size == static_cast<double>(static_cast<uint64_t>(size));
  return whole ? fmt::format("{} {}", static_cast<uint64_t>(size), kUnits[unit]) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string title_of(const Part& part) {
  if (part.kind == "numa") return fmt::format("NUMA node {}", part.name);
  if (part.kind == "l2" || part.kind == "l3" || part.kind == "l4") return fmt::format("{} {}", upper(part.kind), size_text(part.bytes));
  return part.name.empty() ? part.kind : fmt::format("{} {}", part.kind, part.name);
}

void append_lines(const Box& box, const std::string& indent, std::string& text) {
  text += box.title;
  if (!box.note.empty()) text += "  " + box.note;
  text += '\n';
  for (size_t at = 0; at < box.children.size(); ++at) {
    const bool last = at + 1 == box.children.size();
    text += indent + (last ? "└─ " : "├─ ");
    append_lines(box.children[at], indent + (last ? "   " : "│  "), text);
  }
}

}  // namespace

Box box_of(const Node& node, const Insides& insides, bool counts) {  // NOLINT(misc-no-recursion)
  Box box;
  box.kind = node.level ? name_of(*node.level) : "job";
  box.title = node.level ? fmt::format("{} {}", name_of(*node.level), node.name) : "job";
  if (counts && node.level != Level::host) add(box.note, counted(hosts_in(node), "host"));
  if (counts) add(box.note, ranks_text(node.ranks));
  if (const auto inside = insides.find(node.host_id); node.level == Level::host && inside != insides.end()) {
    Box filled = box_of(inside->second);
    add(box.note, filled.note);
    box.children = std::move(filled.children);
  }
  if (!node.sources.empty()) {
    const std::vector<std::string_view> sources(node.sources.begin(), node.sources.end());
    box.note += fmt::format("{}[{}]", box.note.empty() ? "" : "  ", join(sources, "; "));
  }
  for (const Node& child : node.children) box.children.push_back(box_of(child, insides, counts));
  return box;
}

Box box_of(const Part& part) {
  Box box{.kind = part.kind, .title = title_of(part)};
  const bool is_cache = part.kind.starts_with('l');
  if (part.bytes != 0 && !is_cache) add(box.note, size_text(part.bytes));
  if (part.cores != 0) add(box.note, counted(static_cast<size_t>(part.cores), "core"));
  if (!part.cpus.empty()) add(box.note, "CPUs " + part.cpus);
  if (part.link_gb_per_s > 0) add(box.note, fmt::format("{:.1f} GB/s over PCI", part.link_gb_per_s));
  add(box.note, part.model);
  for (const Part& child : part.children) box.children.push_back(box_of(child));
  return box;
}

std::string to_text(const Box& box) {
  std::string text;
  append_lines(box, "", text);
  return text;
}

}  // namespace isthmus::topology
