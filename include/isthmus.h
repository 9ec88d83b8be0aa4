// SPDX-License-Identifier: Apache-2.0
// What Isthmus offers beyond the NCCL API (nccl.h): streams on hosts and its own version. For programs in C and C++.
// Calls return an ncclResult_t; after a failure ncclGetLastError() says what went wrong.
#ifndef ISTHMUS_H_
#define ISTHMUS_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define ISTHMUS_MAJOR 0
#define ISTHMUS_MINOR 1
#define ISTHMUS_PATCH 0
#define ISTHMUS_VERSION_CODE (ISTHMUS_MAJOR * 10000 + ISTHMUS_MINOR * 100 + ISTHMUS_PATCH)

/// *version <- the library's own version, as ISTHMUS_VERSION_CODE. (ncclGetVersion gives the NCCL version it stands for.)
ncclResult_t isthmusGetVersion(int* version);

/// Makes a stream: a queue whose operations run in the order in which they were enqueued, while the caller goes on. Calls that are given
/// the handle return once enqueued; their buffers belong to the library until the stream has been synchronised.
ncclResult_t isthmusStreamCreate(cudaStream_t* stream);
/// Waits for the stream's operations, then forgets the handle. Reports what isthmusStreamSynchronize would have.
ncclResult_t isthmusStreamDestroy(cudaStream_t stream);
/// Waits until every operation enqueued so far has finished. The first failure among them since the last call is returned.
ncclResult_t isthmusStreamSynchronize(cudaStream_t stream);
/// ncclSuccess if every operation enqueued so far has finished, ncclInProgress if not, or the first failure. Never waits.
ncclResult_t isthmusStreamQuery(cudaStream_t stream);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* ISTHMUS_H_ */
