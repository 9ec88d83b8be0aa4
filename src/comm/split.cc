// SPDX-License-Identifier: Apache-2.0
// Splitting. See split.h.
#include "comm/split.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace isthmus::comm {

Split::Split(std::shared_ptr<Communicator> parent, int32_t color, int32_t key, std::string name)
    : parent_(std::move(parent)), number_(parent_->next_split()), name_(std::move(name)), mine_{.color = color, .key = key} {
  all_.resize(static_cast<size_t>(parent_->ranks()));
}

Status Split::start(exec::Launch& launch) {
  if (!parent_->idle()) return invalid_usage("the communicator has operations outstanding: synchronise their streams before it is split");
  const Request exchange{
      .collective = Collective::allgather, .in = &mine_, .out = all_.data(), .count = sizeof(Choice), .type = DataType::uint8};
  return parent_->add(exchange, launch);
}

Result<std::unique_ptr<Communicator>> Split::finish(const Context& context) {
  ISTHMUS_TRY(parent_->state());  // another thread may have ended it since the exchange
  if (mine_.color == kNoColor) return std::unique_ptr<Communicator>();
  std::vector<int32_t> fellows;
  for (int32_t rank = 0; rank < parent_->ranks(); ++rank) {
    if (all_[static_cast<size_t>(rank)].color == mine_.color) fellows.push_back(rank);
  }
  std::stable_sort(fellows.begin(), fellows.end(),
                   [&](int32_t a, int32_t b) { return all_[static_cast<size_t>(a)].key < all_[static_cast<size_t>(b)].key; });

  const Membership& parent = parent_->membership();
  Membership child;
  child.id = Hasher(parent.id).add(number_).add(mine_.color).value();
  ISTHMUS_ASSIGN(const Crypto* crypto, context.process.crypto());
  child.secret = derive_key(*crypto, parent.secret, fmt::format("split {} color {}", number_, mine_.color));
  child.ranks = static_cast<int32_t>(fellows.size());
  child.rank = static_cast<int32_t>(std::find(fellows.begin(), fellows.end(), parent.rank) - fellows.begin());
  child.device = parent.device;
  child.name = name_.empty() ? parent.name : name_;
  child.messenger = parent.messenger;
  for (const int32_t rank : fellows) {
    child.cards.push_back(parent.cards[static_cast<size_t>(rank)]);
    child.family_ranks.push_back(parent.family_ranks[static_cast<size_t>(rank)]);
  }
  return open_communicator(context, std::move(child));
}

}  // namespace isthmus::comm
