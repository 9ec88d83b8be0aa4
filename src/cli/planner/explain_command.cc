// SPDX-License-Identifier: Apache-2.0
// `isthmus explain`: why a collective of some size is carried out as it is.
#include <fmt/format.h>

#include <ctime>
#include <memory>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/planner/inputs.h"
#include "topology/planner/codec_worth.h"
#include "topology/planner/explain.h"

namespace isthmus::cli {
namespace {

struct Words {
  SceneWords scene;
  std::string collective, bytes, plan, codec;
  bool json = false;
};

constexpr std::string_view kFooter =
    "Says where the predicted time goes, which other algorithms come next, what is known of the links and how well, and what would have "
    "to\n"
    "change for another algorithm to be the better one. With --plan it is the plan's choice that is explained, else the quickest, in "
    "fewer\n"
    "segments where that is nearly as quick.\n"
    "\n"
    "Example:\n"
    "  isthmus explain allreduce 4M --layout 2x4 --profile profile.json";

/// What the plan says about that size.
Result<collectives::Choice> planned_choice(const topology::PlanFile& plan, const topology::Layout& layout, Collective collective,
                                           uint64_t bytes) {
  if (plan.layout_hash != layout.hash()) {
    return invalid_argument(fmt::format("the plan is for {}, which is not this layout ({})", plan.layout, layout.text()));
  }
  for (const collectives::PlannedRange& range : plan.ranges()) {
    if (range.collective == collective && bytes >= range.min_bytes && bytes <= range.max_bytes) return range.choice;
  }
  return invalid_argument(fmt::format("the plan says nothing about {} of {} bytes", name_of(collective), bytes));
}

Status explain(const Words& words) {
  ISTHMUS_ASSIGN(const topology::Scene scene, make_scene(words.scene));
  ISTHMUS_ASSIGN(const Collective collective, find_collective(words.collective));
  ISTHMUS_ASSIGN(const uint64_t bytes, parse_bytes(words.bytes));
  if (bytes == 0 || bytes > kMostBytes) return invalid_argument("bytes: from 1 to 1T is accepted");
  collectives::Choice chosen;
  if (!words.plan.empty()) {
    ISTHMUS_ASSIGN(const topology::PlanFile plan, read_plan_file(words.plan));
    auto choice = planned_choice(plan, scene.layout(), collective, bytes);
    if (!choice.ok()) return choice.status().with_context(words.plan);
    chosen = *choice;
  }
  ISTHMUS_ASSIGN(const topology::Explanation explanation,
                 topology::explain(scene, collective, bytes, chosen, topology::SearchOptions().hysteresis));
  std::string worth;
  if (!words.codec.empty()) {
    codec::Codecs codecs;
    ISTHMUS_ASSIGN(const codec::Named* named, codecs.get(words.codec, static_cast<uint32_t>(scene.ranks())));
    if (named->codec == nullptr) return invalid_argument("--codec none: that is the call that is explained anyway");
    ISTHMUS_ASSIGN(const topology::CodecWorth found, topology::worth_of(scene, collective, bytes, *named));
    worth = topology::to_text(found);
  }
  fmt::print("{}", words.json ? topology::to_json(explanation) : topology::to_text(explanation, std::time(nullptr)) + worth);
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("explain", "Says why a collective of some size is carried out as it is");
  const auto words = std::make_shared<Words>();
  command->add_option("collective", words->collective, "allreduce, reduce_scatter, allgather, broadcast, reduce or alltoall")->required();
  command->add_option("bytes", words->bytes, "Size of the larger buffer: 4096, 256K, 64M")->required();
  add_scene_options(*command, words->scene, true);
  command->add_option("--plan", words->plan, "A plan file whose choice is to be explained");
  command->add_option("--codec", words->codec, "Also says what the call gains through a codec, and up to which rate: thc:b=4, bf16...");
  command->add_flag("--json", words->json, "As JSON");
  command->footer(std::string(kFooter));
  command->callback([words, &outcome] {
    if (const Status said = explain(*words); !said.ok()) {
      fmt::print(stderr, "isthmus explain: {}\n", said.text());
      outcome.exit_code = said.code() == Code::invalid_argument ? 2 : 1;
    }
  });
}

}  // namespace isthmus::cli
