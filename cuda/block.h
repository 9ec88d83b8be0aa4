// SPDX-License-Identifier: Apache-2.0
// How device code is written so that a CPU can run it too: as phases over an abstract thread block. A phase is a function of the
// thread's number; between phases is a barrier, so what threads tell each other goes through shared memory, from one phase to the
// next. What stands outside phases is the same for all threads: it writes nothing, and reads nothing that the next phase writes (a
// thread may be in that phase already). Used by the kernels (thc_kernels.cu), where a phase is one thread's part, and by tests, where
// it is a loop over the threads. Nothing can fail.
//
//   struct Block {
//     uint32_t threads;
//     template <class Phase> void each(const Phase& phase) const;   // phase(0) ... phase(threads - 1), in any order; then the barrier
//   };
#pragma once

#if defined(__CUDACC__)
#define ISTHMUS_DEVICE __device__
#define ISTHMUS_UNROLL(count) _Pragma(ISTHMUS_UNROLL_TEXT(unroll count))
#define ISTHMUS_UNROLL_TEXT(text) #text
#else
#define ISTHMUS_DEVICE
#define ISTHMUS_UNROLL(count)
#endif
