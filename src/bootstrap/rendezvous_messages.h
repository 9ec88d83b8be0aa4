// SPDX-License-Identifier: Apache-2.0
// What root and members say to each other, as bytes. Used by the two machines of rendezvous.h. Decoding fails (remote_error) on bytes
// that no member or root writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bootstrap/rendezvous.h"

namespace isthmus::bootstrap {

/// The commonest reason why ranks do not find each other, appended to the names of the missing.
inline constexpr std::string_view kSameIdQuestion =
    "; do all ranks use the same unique id, which one of them made by ncclGetUniqueId and sent to the others, or all got by NCCL_COMM_ID?";

/// Link message types of the rendezvous; the control plane's begin at 16.
enum class RendezvousType : uint8_t {
  blob = 1,     ///< member -> root: its blob, as it is
  waiting = 2,  ///< root -> member: who is still missing
  table = 3,    ///< root -> member: the result
  verdict = 4,  ///< root -> member: why there will be none
};

std::vector<std::byte> encode(const Waiting& waiting);
Result<Waiting> decode_waiting(std::span<const std::byte> body);

std::vector<std::byte> encode(const Table& table);
/// A table of exactly `ranks` blobs.
Result<Table> decode_table(std::span<const std::byte> body, int32_t ranks);
/// The longest table of that many ranks.
size_t max_table_bytes(int32_t ranks);

/// `verdict` is not ok.
std::vector<std::byte> encode_verdict(const Status& verdict);
/// The failure that the root announces, or that its message is malformed.
Status decode_verdict(std::span<const std::byte> body);

}  // namespace isthmus::bootstrap
