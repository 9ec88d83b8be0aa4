// SPDX-License-Identifier: Apache-2.0
// rank_set.h.
#include "federated/rank_set.h"

namespace isthmus::federated {
namespace {

constexpr uint32_t kWordBits = 64;

}  // namespace

std::vector<int32_t> ranks_of(const RankSet& set) {
  std::vector<int32_t> ranks;
  for (uint32_t rank = 0; rank < kMaxContributors; ++rank)
    if (set[rank]) ranks.push_back(static_cast<int32_t>(rank));
  return ranks;
}

void write_ranks(Writer& writer, const RankSet& ranks) {
  for (uint32_t first = 0; first < kMaxContributors; first += kWordBits) {
    uint64_t word = 0;
    for (uint32_t bit = 0; bit < kWordBits; ++bit) word |= uint64_t{ranks[first + bit]} << bit;
    writer.u64(word);
  }
}

RankSet read_ranks(Reader& reader, uint32_t ranks) {
  RankSet set;
  for (uint32_t first = 0; first < kMaxContributors; first += kWordBits) {
    const uint64_t word = reader.u64();
    for (uint32_t bit = 0; bit < kWordBits; ++bit) set[first + bit] = (word >> bit & 1) != 0;
  }
  if ((set >> ranks).any()) reader.fail();
  return set;
}

}  // namespace isthmus::federated
