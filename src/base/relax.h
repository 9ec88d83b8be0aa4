// SPDX-License-Identifier: Apache-2.0
// What a loop does that waits for another CPU: a hint that spares power and the memory's order buffers. Used by the waits of exec/.
#pragma once

namespace isthmus {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");  // NOLINT(hicpp-no-assembler): there is no builtin for it
#endif
}

}  // namespace isthmus
