// SPDX-License-Identifier: Apache-2.0
// Every limit of a plan, by name. Read by the builder, which refuses what exceeds them, and by tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isthmus::plan {

/// Inbox slots per plan and layout. More would let more peers push ahead of the applies, at the price of one chunk's memory each.
inline constexpr size_t kMaxInboxSlots = 8;
/// Regions per plan (their index is 16 bits, and one value means "none").
inline constexpr size_t kMaxRegions = UINT16_MAX;
/// Dependencies of one step (the count is 16 bits).
inline constexpr size_t kMaxDependencies = UINT16_MAX;
/// Grid cells per plan; keeps the binding table of a call within a few MiB.
inline constexpr uint64_t kMaxCells = 1u << 20;

}  // namespace isthmus::plan
