// SPDX-License-Identifier: Apache-2.0
// The planner's files: layouts, profiles, plan files and NCCL's tuner tables. Refusals say why; what is accepted is written as a text that
// means the same, and can be used for planning's questions.
#include "target.h"
#include "topology/planner/plan_file.h"
#include "topology/planner/scene.h"
#include "topology/planner/tuner_csv.h"

namespace isthmus::fuzz {
namespace {

using namespace topology;

void look_at(const Layout& layout) {
  promise(layout.ranks() > 0 && layout.ranks() <= 4096, "a layout has ranks");
  for (size_t level = 0; level < kLevels; ++level) {
    promise(layout.member_of[level].size() == static_cast<size_t>(layout.ranks()), "every rank is somewhere");
    for (const int32_t member : layout.member_of[level]) {
      promise(member >= 0 && static_cast<size_t>(member) < layout.names[level].size(), "members are numbered");
    }
  }
  promise(layout.divisions().size() % static_cast<size_t>(layout.ranks()) == 0, "divisions are of all ranks");
  promise(!layout.text().empty(), "a layout can be told");
}

void look_at(const Profile& profile) {
  const std::string text = to_json(profile);
  const auto again = parse_profile(text);
  promise(again.ok() && *again == profile && to_json(*again) == text, "a profile survives");
  const Layout layout = parse_layout("2x2").value();
  promise(profile.find(layout, 0, 3) != nullptr, "something is known of any link");
  (void)unknown_members(layout, profile);
}

void look_at(const PlanFile& file) {
  const std::string text = to_json(file);
  std::vector<std::string> warnings;
  const auto again = parse_plan_file(text, warnings);
  promise(again.ok() && warnings.empty() && to_json(*again) == text, "a plan file survives, and warns of nothing that we wrote");
  (void)to_text(file);
  (void)file.ranges();
  (void)to_tuner_csv(file, 2);
}

template <typename T>
void look_at(const Result<T>& parsed) {
  if (parsed.ok()) {
    look_at(*parsed);
  } else {
    promise(!parsed.status().text().empty(), "a refusal says why");
  }
}

PlanFile example() { return make_plan_file(Scene::make(parse_layout("2x2").value(), prior_profile()).value(), {}).value(); }

}  // namespace

void run(Input input) {
  const uint8_t tag = take_byte(input);
  const std::string_view text = text_of(input);
  std::vector<std::string> warnings;
  switch (tag) {
    case 'l':
      return look_at(parse_layout(text));
    case 'p':
      return look_at(parse_profile(text));
    case 'f':
      return look_at(parse_plan_file(text, warnings));
    default: {
      const auto pins = parse_tuner_csv(text, parse_layout("2x2").value(), warnings);
      if (pins.ok()) return look_at(PlanFile{.ranks = 4, .pins = *pins});
      promise(!pins.status().text().empty(), "a refusal says why");
    }
  }
}

std::vector<Bytes> seeds() {
  const PlanFile plan = example();
  return {tagged('l', to_bytes("2x4x2/cyclic")),
          tagged('l', to_bytes("3+5x2")),
          tagged('l', to_bytes(R"({"schema": "isthmus.topo/1", "ranks": [{"rank": 0, "host": "a", "building": "x"}]})")),
          tagged('p', to_bytes(to_json(prior_profile()))),
          tagged('f', to_bytes(to_json(plan))),
          tagged('t', to_bytes(to_tuner_csv(plan, 4))),
          tagged('t', to_bytes("allreduce,0,65536,ring,simple,-1,4,4,-1,-1\n# note\nbroadcast,1,2,tree,ll,1,-1,-1,,\n"))};
}

}  // namespace isthmus::fuzz
