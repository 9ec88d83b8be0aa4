// SPDX-License-Identifier: Apache-2.0
// Plans as text, DOT and Chrome trace. Called by the isthmus tool, failure reports and tests; cannot fail.
#include "plan/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace isthmus::plan {

namespace {

using Sink = std::back_insert_iterator<std::string>;

std::string name_of_region(const Plan& plan, uint16_t region) {
  if (region == kIn) return "in";
  if (region == kOut) return "out";
  if (region >= plan.regions.size()) return fmt::format("region{}", region);
  const Region& what = plan.regions[region];
  if (what.place == Place::user) return fmt::format("user{}", region);
  const std::string_view layout = what.layout == Layout::encoded ? "enc" : what.layout == Layout::scale ? "scale" : "tmp";
  return fmt::format("{}{}", layout, region);
}

std::string words(const Plan& plan, const Chunk& chunk) {
  if (!chunk.valid()) return "-";
  return fmt::format("{}[{}..{})", name_of_region(plan, chunk.region), chunk.begin, chunk.end);
}

/// "out[2..4) = in[2..4) sum message": what the step does to memory.
std::string effect(const Plan& plan, const Step& step) {
  const std::string dst = words(plan, step.dst());
  const std::string src = fmt::format("{}{}", (step.flags & kMapIn) != 0 ? "scalar*" : "", words(plan, step.src()));
  const std::string_view divided = (step.flags & kMapOut) != 0 ? " /ranks" : "";
  switch (step.kind) {
    case StepKind::send:
      return src;
    case StepKind::recv:
      return dst;
    case StepKind::recv_reduce:
      return fmt::format("{} = {} {} message{}", dst, src, isthmus::name_of(step.op), divided);
    case StepKind::reduce:
      return fmt::format("{} = {} {} {}{}", dst, src, isthmus::name_of(step.op), words(plan, step.src2()), divided);
    case StepKind::accumulate:
      return fmt::format("{} = {} + {}", dst, src, words(plan, step.src2()));
    case StepKind::encode:
      return step.own().valid() ? fmt::format("{} = {} by {}, own {}", dst, src, words(plan, step.src2()), words(plan, step.own()))
                                : fmt::format("{} = {}", dst, src);
    case StepKind::decode:
      return fmt::format("{} = {} by {} holding {}{}", dst, src, words(plan, step.src2()), step.summands, divided);
    case StepKind::copy:
    case StepKind::map:
    case StepKind::measure:
    case StepKind::native:
      break;
  }
  return fmt::format("{} = {}{}", dst, src, divided);
}

void append_message(Sink to, const Step& step) {
  if (step.is_message()) fmt::format_to(to, "  #{}", step.ordinal);
  if (step.slot != kNoSlot) fmt::format_to(to, "  slot {}", step.slot);
  if (step.slot_after != kNoStep) fmt::format_to(to, " after {}", step.slot_after);
  if ((step.flags & kReadInPlace) != 0) fmt::format_to(to, "  in place");
}

std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string to_text(const Plan& plan, uint32_t index) {
  const Step& step = plan.steps[index];
  std::string text = fmt::format("{:4} {:11}", index, name_of(step.kind));
  const Sink to = std::back_inserter(text);
  if (step.is_message()) fmt::format_to(to, " {} {:3}", step.kind == StepKind::send ? "to  " : "from", step.peer);
  fmt::format_to(to, " {}", effect(plan, step));
  append_message(to, step);
  const char* separator = "  after ";
  for (const uint32_t before : plan.deps_of(step)) fmt::format_to(to, "{}{}", std::exchange(separator, ","), before);
  if (step.level > 0) fmt::format_to(to, "  level {}", step.level);
  if (step.site < plan.sites.size()) fmt::format_to(to, "  {}:{}", base_name(plan.sites[step.site].file), plan.sites[step.site].line);
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text =
      fmt::format("{}/{} rank {} of {}{}{}, {} x {} cells, {} steps, {} inbox slots, {} bytes\n", isthmus::name_of(plan.collective),
                  plan.name, plan.rank, plan.ranks, plan.in_place ? ", in place" : "", plan.map_in ? ", input scaled" : "",
                  plan.grid.blocks, plan.grid.cells_per_block, plan.steps.size(), plan.slots.size(), plan.bytes());
  for (uint32_t i = 0; i < plan.steps.size(); ++i) text += to_text(plan, i) + "\n";
  return text;
}

std::string to_dot(World world) {
  std::string text = "digraph plan {\n  rankdir=LR;\n  node [shape=box, fontname=monospace, fontsize=9];\n";
  const Sink to = std::back_inserter(text);
  std::map<std::tuple<int32_t, int32_t, uint32_t>, std::string> sends;  // (from, to, ordinal) -> node
  for (const Plan& plan : world) {
    fmt::format_to(to, "  subgraph cluster_{} {{\n    label=\"rank {}\";\n", plan.rank, plan.rank);
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      fmt::format_to(to, "    r{}s{} [label=\"{} {}\"];\n", plan.rank, i, name_of(step.kind), escaped(effect(plan, step)));
      for (const uint32_t before : plan.deps_of(step)) fmt::format_to(to, "    r{}s{} -> r{}s{};\n", plan.rank, before, plan.rank, i);
      if (step.kind == StepKind::send) sends[{plan.rank, step.peer, step.ordinal}] = fmt::format("r{}s{}", plan.rank, i);
    }
    text += "  }\n";
  }
  for (const Plan& plan : world) {
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      if (!step.receives()) continue;
      const auto send = sends.find({step.peer, plan.rank, step.ordinal});
      if (send != sends.end()) fmt::format_to(to, "  {} -> r{}s{} [color=blue, constraint=true];\n", send->second, plan.rank, i);
    }
  }
  return text + "}\n";
}

std::string to_chrome_trace(World world, const Cost& cost) {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  std::string_view separator = "\n";
  for (const StepTime& at : cost.times) {
    const auto plan = std::find_if(world.begin(), world.end(), [&](const Plan& p) { return p.rank == at.rank; });
    if (plan == world.end()) continue;
    const Step& step = plan->steps[at.step];
    fmt::format_to(std::back_inserter(text),
                   "{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"step\":\"{}\"}}}}",
                   separator, name_of(step.kind), at.rank, static_cast<int>(step.kind), static_cast<double>(at.begin_ns) / 1000,
                   static_cast<double>(at.end_ns - at.begin_ns) / 1000, escaped(to_text(*plan, at.step)));
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace isthmus::plan
