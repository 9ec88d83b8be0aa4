// SPDX-License-Identifier: Apache-2.0
// LocalFamily. See messenger.h.
#include "comm/messenger.h"

#include <algorithm>

namespace isthmus::comm {

void LocalFamily::subscribe(Listener& listener, uint64_t communicator, int32_t rank, std::vector<int32_t>) {
  subscribers_.push_back({.listener = &listener, .communicator = communicator, .rank = rank});
}

void LocalFamily::unsubscribe(Listener& listener) {
  std::erase_if(subscribers_, [&](const Subscriber& subscriber) { return subscriber.listener == &listener; });
}

void LocalFamily::send(const Listener& from, int32_t to, std::span<const std::byte> body) {
  const auto sender = std::find_if(subscribers_.begin(), subscribers_.end(), [&](const Subscriber& s) { return s.listener == &from; });
  if (sender == subscribers_.end()) return;
  const Subscriber source = *sender;
  const auto receiver = std::find_if(subscribers_.begin(), subscribers_.end(),
                                     [&](const Subscriber& s) { return s.communicator == source.communicator && s.rank == to; });
  if (receiver != subscribers_.end()) receiver->listener->on_message(source.rank, body);
}

}  // namespace isthmus::comm
