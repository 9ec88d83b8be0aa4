// SPDX-License-Identifier: Apache-2.0
// Dividing a communicator. Every rank tells every other its color and key by an allgather on the parent; then each works out, without
// further messages, who its fellows are: the ranks of its color, ordered by key, then by old rank. Called by api/ under the driver's
// lock. Fails where the parent fails, or while it has operations outstanding.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/setup.h"

namespace isthmus::comm {

inline constexpr int32_t kNoColor = -1;

class Split {
 public:
  /// `color` >= 0 or kNoColor. `name` is the new communicator's, "" for the parent's.
  Split(std::shared_ptr<Communicator> parent, int32_t color, int32_t key, std::string name);

  /// Adds the exchange to a launch. Refused while the parent has operations outstanding.
  Status start(exec::Launch& launch);
  /// Once the launch is done without failure: the new communicator, or null for kNoColor.
  Result<std::unique_ptr<Communicator>> finish(const Context& context);

 private:
  struct Choice {
    int32_t color, key;
  };
  std::shared_ptr<Communicator> parent_;
  uint64_t number_;
  std::string name_;
  Choice mine_;
  std::vector<Choice> all_;  ///< by parent rank
};

}  // namespace isthmus::comm
