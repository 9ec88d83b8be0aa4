// SPDX-License-Identifier: Apache-2.0
// How much memory the system would still give this process. Asked before large reservations, because the kernel does not refuse them:
// it hands out pages until its out-of-memory killer ends some process. Facts that cannot be read are left out of account.
#pragma once

#include <cstdint>
#include <string>

namespace isthmus::memory {

/// The least of what the host and this process's control group have left, counting page cache as free. UINT64_MAX when unknown.
/// `root` is put before every path, for tests.
uint64_t available_bytes(const std::string& root = "");

}  // namespace isthmus::memory
