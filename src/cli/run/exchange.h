// SPDX-License-Identifier: Apache-2.0
// The service that ranks started by `isthmus run` may use to find each other: an allgather of small blocks. Each rank inherits one end
// of a socket (ISTHMUS_RUN_FD) and writes
//     4-byte length, block
// and reads, when every rank has done so,
//     4-byte status, 4-byte length, the blocks of all ranks by rank        (status 0)
//     4-byte status, 4-byte length, the reason why there is no answer       (status 1)
// in the machine's byte order. A pure state machine: the launcher feeds it, the node carries the bytes. A rank that leaves
// makes every exchange fail that still needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::cli {

class Exchange {
 public:
  explicit Exchange(int ranks) : blocks_(static_cast<size_t>(ranks)), left_(static_cast<size_t>(ranks)) {}

  struct Answer {
    int rank;
    std::string bytes;  ///< as the rank reads them
  };
  /// A rank's block has arrived. Returns what must be sent now: nothing, or an answer to every rank that waits.
  std::vector<Answer> submit(int rank, std::string block);
  /// A rank has left.
  std::vector<Answer> leave(int rank);

 private:
  [[nodiscard]] std::string problem() const;
  std::vector<Answer> answer_all(uint32_t status, const std::string& payload);

  std::vector<std::optional<std::string>> blocks_;
  std::vector<bool> left_;
};

/// A rank's request as far as it has arrived: its block once whole, which is then removed from `bytes`.
std::optional<std::string> take_request(std::string& bytes);

}  // namespace isthmus::cli
