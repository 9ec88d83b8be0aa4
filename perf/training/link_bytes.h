// SPDX-License-Identifier: Apache-2.0
// What this host has sent over its network interfaces, by the system's own counters: with headers, acknowledgements and repetitions. Used
// by the trainer; where the counters cannot be read there are none.
#pragma once

#include <cstdint>
#include <istream>

namespace training {

/// Sum of the sent bytes of all interfaces but the loopback, from a text of the form of /proc/net/dev.
uint64_t sum_sent_bytes(std::istream& counters);

/// Of this host since it started; of this process's network namespace.
uint64_t link_bytes_sent();

}  // namespace training
