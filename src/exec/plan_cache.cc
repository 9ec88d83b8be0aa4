// SPDX-License-Identifier: Apache-2.0
// The cache behind PlanCache::get. Called under the Process's lock; fails only where building a plan fails.
#include "exec/plan_cache.h"

#include <vector>

#include "base/hash.h"
#include "plan/builder.h"
#include "plan/check.h"

namespace isthmus::exec {

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  Hasher hasher;
  hasher.add(reinterpret_cast<uintptr_t>(key.algorithm)).add(key.group);
  hasher.add((static_cast<uint64_t>(static_cast<uint32_t>(key.position)) << 32) | static_cast<uint32_t>(key.size));
  hasher.add((static_cast<uint64_t>(static_cast<uint32_t>(key.root)) << 32) | key.segments)
      .add((static_cast<uint64_t>(key.across) << 32) | key.leaders);
  hasher.add((static_cast<uint64_t>(key.op) << 2) | (key.in_place ? 2U : 0U) | (key.map_in ? 1U : 0U));
  hasher.add(reinterpret_cast<uintptr_t>(key.codec));
  return hasher.value();
}

namespace {

// Proves the plans of all ranks for a count with odd remainders. Ranks are assumed to call in place alike.
Status prove(const plan::Algorithm& algorithm, plan::Shape shape) {
  std::vector<plan::Plan> world;
  for (int32_t position = 0; position < shape.group.size; ++position) {
    shape.group.position = position;
    ISTHMUS_ASSIGN(plan::Plan plan, plan::build(algorithm, shape));
    world.push_back(std::move(plan));
  }
  const uint64_t count = 2 * static_cast<uint64_t>(shape.group.size) + 1;
  ISTHMUS_TRY(plan::check_symbolic(world, count));
  ISTHMUS_TRY(plan::check_deadlock(world, count, plan::Reads::pushed));
  return plan::check_deadlock(world, count, plan::Reads::in_place);
}

}  // namespace

Result<std::shared_ptr<const Program>> PlanCache::get(const PlanKey& key, const plan::Shape& shape) {
  if (const auto found = index_.find(key); found != index_.end()) {
    ++hits_;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().program;
  }
  ++misses_;
  if (prove_) {
    ISTHMUS_TRY(prove(*key.algorithm, shape));
  }
  ISTHMUS_ASSIGN(plan::Plan plan, plan::build(*key.algorithm, shape));
  auto program = std::make_shared<const Program>(std::move(plan));
  const uint64_t bytes = program->bytes();
  entries_.push_front({.key = key, .program = program, .bytes = bytes});
  index_[key] = entries_.begin();
  bytes_ += bytes;
  while (bytes_ > max_bytes_ && entries_.size() > 1) {  // the newest stays even if it alone is too large
    bytes_ -= entries_.back().bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return program;
}

}  // namespace isthmus::exec
