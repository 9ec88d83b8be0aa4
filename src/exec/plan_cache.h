// SPDX-License-Identifier: Apache-2.0
// Programs by what they depend on, never by count; least recently used ones go when the byte limit is passed. Called by comm/ for
// every collective, under the Process's lock. Fails only where building the plan fails.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/status.h"
#include "exec/program.h"
#include "plan/algorithm.h"

namespace isthmus::exec {

/// Everything a plan depends on. `group` is 0 for the whole communicator, else a hash of its ranks.
struct PlanKey {
  const plan::Algorithm* algorithm = nullptr;
  uint64_t group = 0;
  int32_t position = 0;
  int32_t size = 1;
  int32_t root = -1;
  uint32_t segments = 1;
  uint32_t leaders = 0;
  plan::Across across = plan::Across::direct;
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
  bool map_in = false;
  const codec::Codec* codec = nullptr;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

class PlanCache {
 public:
  /// With `prove`, a plan is built for all ranks and proved before its first use; a plan that cannot be proved is refused.
  explicit PlanCache(uint64_t max_bytes, bool prove = false) : max_bytes_(max_bytes), prove_(prove) {}

  /// The program of `key`; built from `shape` with the key's algorithm when it is not here. A hit allocates nothing.
  Result<std::shared_ptr<const Program>> get(const PlanKey& key, const plan::Shape& shape);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t hits() const { return hits_; }
  [[nodiscard]] uint64_t misses() const { return misses_; }

 private:
  struct Hash {
    size_t operator()(const PlanKey& key) const;
  };
  struct Entry {
    PlanKey key;
    std::shared_ptr<const Program> program;
    uint64_t bytes;
  };

  uint64_t max_bytes_;
  bool prove_;
  uint64_t bytes_ = 0, hits_ = 0, misses_ = 0;
  std::list<Entry> entries_;  ///< most recently used first
  std::unordered_map<PlanKey, std::list<Entry>::iterator, Hash> index_;
};

}  // namespace isthmus::exec
