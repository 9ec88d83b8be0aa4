// SPDX-License-Identifier: Apache-2.0
// inputs.h.
#include "cli/planner/inputs.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/text.h"
#include "topology/planner/tuner_csv.h"

namespace isthmus::cli {

void add_scene_options(CLI::App& command, SceneWords& words, bool layout_required) {
  CLI::Option* layout = command.add_option(
      "--layout", words.layout,
      "Where the ranks are: a file that 'isthmus topo --json' wrote for a job, or numbers: 2x4 (buildings x hosts), 2x4x8 (x ranks), "
      "3+5 (hosts of each building), with /cyclic where neighbouring ranks are in different buildings");
  if (layout_required) layout->required();
  command.add_option("--profile", words.profile, "What links and hosts do: a file that 'isthmus probe' wrote; else assumptions are made");
  command.add_option("--cpus", words.cpus, "CPUs that the ranks of a host share; 0: enough for all")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

Result<topology::Scene> make_scene(const SceneWords& words) {
  std::string text = words.layout;
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(words.layout, ignored);
  if (is_file) {
    ISTHMUS_ASSIGN(text, read_named_file(words.layout));
  }
  auto layout = topology::parse_layout(text);
  if (!layout.ok()) return layout.status().with_context(is_file ? fmt::format("--layout {}", words.layout) : "--layout");
  layout->cpus_of_hosts.assign(layout->cpus_of_hosts.size(), words.cpus);
  topology::Profile profile = topology::prior_profile();
  if (!words.profile.empty()) {
    ISTHMUS_ASSIGN(const std::string profile_text, read_named_file(words.profile));
    auto parsed = topology::parse_profile(profile_text);
    if (!parsed.ok()) return parsed.status().with_context(fmt::format("--profile {}", words.profile));
    profile = std::move(parsed).value();
  }
  for (const std::string& name : topology::unknown_members(*layout, profile)) {
    fmt::print(stderr, "warning: {}: '{}' is in no level of this layout, what is said about it is left aside\n", words.profile, name);
  }
  return topology::Scene::make(std::move(layout).value(), std::move(profile));
}

Result<Collective> find_collective(const std::string& name) {
  constexpr std::array kAll = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                               Collective::broadcast, Collective::reduce,         Collective::alltoall};
  for (const Collective each : kAll) {
    std::string brief(name_of(each));
    std::erase(brief, '_');
    if (lower(name) == name_of(each) || lower(name) == brief) return each;
  }
  return invalid_argument(fmt::format("'{}' is none of allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall", name));
}

Result<std::string> read_named_file(const std::string& path) {
  auto text = read_text_file(path);
  if (!text.ok()) return text.status().with_context(path);
  return text;
}

Result<topology::PlanFile> read_plan_file(const std::string& path) {
  ISTHMUS_ASSIGN(const std::string text, read_named_file(path));
  std::vector<std::string> warnings;
  auto plan = topology::parse_plan_file(text, warnings);
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}: {}\n", path, warning);
  if (!plan.ok()) return plan.status().with_context(path);
  return plan;
}

Result<std::vector<topology::Pin>> read_pins(const std::string& path, const topology::Layout& layout) {
  ISTHMUS_ASSIGN(const std::string text, read_named_file(path));
  if (trim(text).starts_with('{')) {
    ISTHMUS_ASSIGN(const topology::PlanFile plan, read_plan_file(path));
    return plan.pins;
  }
  std::vector<std::string> warnings;
  auto pins = topology::parse_tuner_csv(text, layout, warnings);
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}: {}\n", path, warning);
  if (!pins.ok()) return pins.status().with_context(path);
  return pins;
}

Status write_output(const std::string& path, const std::string& text) {
  if (path.empty()) {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : errno_error(fmt::format("cannot write {}", path), errno);
}

}  // namespace isthmus::cli
