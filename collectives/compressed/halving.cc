// SPDX-License-Identifier: Apache-2.0
// Sums of encodings by recursive halving, with bits that grow from step to step. See phases.h.
#include "collectives/compressed/phases.h"

namespace isthmus::collectives {

GrowingHalvings growing_halvings(const Group& group, Pairing pairing) {
  std::vector<Halvings> paths;
  paths.reserve(static_cast<size_t>(group.size));
  for (int32_t at = 0; at < group.size; ++at) paths.push_back(halvings({.ranks = {}, .size = group.size, .position = at}, pairing));
  GrowingHalvings result = {.path = paths[static_cast<size_t>(group.position)], .summands = {std::vector<int32_t>(paths.size(), 1)}};
  for (size_t step = 0; step < result.path.steps.size(); ++step) {
    const std::vector<int32_t> before = result.summands.back();
    std::vector<int32_t>& after = result.summands.emplace_back(before);
    for (size_t at = 0; at < paths.size(); ++at) {
      if (step >= paths[at].steps.size()) continue;
      const Halving& halving = paths[at].steps[step];
      if (halving.partner >= 0) after[at] += before[static_cast<size_t>(halving.partner)];
      if (halving.helped >= 0) after[at] += before[static_cast<size_t>(halving.helped)];
    }
  }
  return result;
}

void halving_sum(Builder& b, const Group& group, const GrowingHalvings& halvings, const Coded& coded, Chunks shares, uint32_t parts) {
  const auto& [path, summands] = halvings;
  const auto me = static_cast<size_t>(group.position);
  Chunk held = on(coded.indices, joined(shares, 0, group.size));
  for (size_t at = 0; at < path.steps.size(); ++at) {
    const Halving& step = path.steps[at];
    const Chunk mine = joined(shares, step.mine_begin, step.mine_end), theirs = joined(shares, step.theirs_begin, step.theirs_end);
    for (const Chunk& part : cut(theirs, parts)) {
      if (at == 0) encode(b, coded, part);
      b.send(group.rank_at(step.partner >= 0 ? step.partner : step.helper), on(held, part));
    }
    if (at == 0) encode(b, coded, mine);
    if (step.partner < 0) continue;
    const bool last = at + 1 == path.steps.size();
    const Chunk sum = last ? on(coded.sums, mine) : room_for(b, mine, summands[at + 1][me]);
    for (const int32_t peer : {step.partner, step.helped}) {
      if (peer < 0) continue;
      const Chunk arrived = room_for(b, mine, summands[at][static_cast<size_t>(peer)]);
      for (const Chunk& part : cut(mine, parts)) {
        b.recv(group.rank_at(peer), on(arrived, part));
        b.accumulate(on(sum, part), on(held, part), on(arrived, part));
      }
      held = sum;
    }
  }
}

}  // namespace isthmus::collectives
