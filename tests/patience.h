// SPDX-License-Identifier: Apache-2.0
// How much longer than usual real time may take in tests. Used where a test bounds it: what is promised within a time is promised in
// builds that no sanitizer slows down, and waits that only end a hang must outlast the slowest build.
#pragma once

#include "base/sanitizers.h"

namespace isthmus {

inline constexpr int kPatience = kSanitized ? 5 : 1;

}  // namespace isthmus
