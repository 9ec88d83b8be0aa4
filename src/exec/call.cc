// SPDX-License-Identifier: Apache-2.0
// Words and keys of signatures. Called for every call (key) and when one fails (to_text); cannot fail.
#include "exec/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace isthmus::exec {

std::string Signature::to_text() const {
  if (collective == Collective::sendrecv) return fmt::format("send/recv count {} {}", count, name_of(type));
  if (collective == Collective::barrier) return fmt::format("call #{} barrier", sequence);
  std::string text = fmt::format("call #{} {} count {} {}", sequence, name_of(collective), count, name_of(type));
  if (is_reducing(collective)) text += fmt::format(" {}{}", name_of(op), scaled ? " (scaled)" : "");
  if (is_rooted(collective)) text += fmt::format(" root {}", root);
  if (!coding.empty()) text += fmt::format(" as {}", coding);
  return text;
}

uint64_t Signature::kind_key(uint64_t communicator, uint64_t plan_tag) const {
  Hasher hasher;
  hasher.add(communicator).add(plan_tag).add(count).add(root);
  hasher.add((static_cast<uint64_t>(collective) << 24) | (static_cast<uint64_t>(type) << 16) | (static_cast<uint64_t>(op) << 8) |
             (scaled ? 1U : 0U));
  return std::max<uint64_t>(1, hasher.value());
}

}  // namespace isthmus::exec
