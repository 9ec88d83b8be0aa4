// SPDX-License-Identifier: Apache-2.0
// Plans of grouped send/recv: a flat list of messages between user buffers, with no dependencies. Called by comm/ once per
// group, into a plan and a binding that it reuses, so that a repeated group allocates nothing. Refuses impossible lists.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace isthmus::plan {

/// One send or receive of a group.
struct Transfer {
  int32_t peer = 0;  ///< communicator rank
  bool is_send = false;
  uint64_t bytes = 0;  ///< zero-byte transfers do travel
};

/// Fills `plan` and `binding` (element size: one byte). Transfer i lies in region kFirstUser + i, grid cell i. A rank's sends to
/// itself pair with its receives from itself, in order, and become copies; their sizes must agree.
/// Errors: invalid_argument for a peer out of range or too many transfers, invalid_usage for unpaired or unequal self-transfers.
inline constexpr uint16_t kFirstUser = 2;
Status build_send_recv(int32_t rank, int32_t ranks, std::span<const Transfer> transfers, Plan& plan, Binding& binding);

}  // namespace isthmus::plan
