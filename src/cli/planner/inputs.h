// SPDX-License-Identifier: Apache-2.0
// What `isthmus plan` and `isthmus explain` are told about a job: where its ranks are and what its links do. Fails on files that cannot be
// read or understood, and says which and where.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "topology/planner/plan_file.h"

namespace isthmus::cli {

/// Of a call's larger buffer, as far as commands look.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 40;

struct SceneWords {
  std::string layout, profile;
  int cpus = 0;  ///< of each host; 0: enough
};
void add_scene_options(CLI::App& command, SceneWords& words, bool layout_required);
Result<topology::Scene> make_scene(const SceneWords& words);

/// "allreduce", "reduce_scatter" and so on, also as NCCL writes it.
Result<Collective> find_collective(const std::string& name);

/// With the file's name in front of what is wrong.
Result<std::string> read_named_file(const std::string& path);
Result<topology::PlanFile> read_plan_file(const std::string& path);
/// The pins of a plan file, or of one of NCCL's tuner tables.
Result<std::vector<topology::Pin>> read_pins(const std::string& path, const topology::Layout& layout);

/// Text to a file, or to standard output where `path` is "".
Status write_output(const std::string& path, const std::string& text);

}  // namespace isthmus::cli
