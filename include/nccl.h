// SPDX-License-Identifier: Apache-2.0
// The drop-in C API: the functions, types and values of NCCL 2.28.9 that Isthmus implements, with the same names and the same binary
// layout, so that programs built against either header run with either library. Written for programs in C and C++; needs no CUDA.
// Every call returns an ncclResult_t; after a failure ncclGetLastError() says what went wrong, where and what to do.
//
// Buffers are host memory. A stream is NULL (the call, or the outermost ncclGroupEnd, returns when the operation is complete) or a
// handle from isthmusStreamCreate() in isthmus.h. Each function exists as ncclX and pncclX, so that tools may wrap ncclX.
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

// Programs written for NCCL expect its header to bring the CUDA runtime's declarations where there is a CUDA runtime.
// Define ISTHMUS_WITHOUT_CUDA to keep them out. The stream type is the same either way.
#if !defined(ISTHMUS_WITHOUT_CUDA) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- Types --------------------------------------------------------------------------------------------------------------- */

// Callers may pass any number for an enumeration and are told that it is none. In C that is so by itself; in C++ an enumeration without
// a fixed type has no values beyond its enumerators' bits, and to read one would be undefined. The binary interface is the same.
#if defined(__cplusplus) && __cplusplus >= 201103L
#define NCCL_ANY_INT : int
#else
#define NCCL_ANY_INT
#endif

/// An in-order queue of operations. Handles are looked up, never dereferenced.
typedef struct CUstream_st* cudaStream_t;

/// A communicator: one rank's membership in a group of ranks.
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
/// Names a communicator to be, and carries the secret that its ranks prove to each other. Made by one rank, handed to the others
/// through a channel that only they can read. Opaque; passed by value.
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum NCCL_ANY_INT {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,     /* a call into the operating system failed */
  ncclInternalError = 3,   /* a bug in the library */
  ncclInvalidArgument = 4, /* an argument is wrong; nothing happened and the communicator still works */
  ncclInvalidUsage = 5,    /* the call is wrong at this moment, or differs from what another rank called */
  ncclRemoteError = 6,     /* a peer died, is unreachable or reported an error */
  ncclInProgress = 7,      /* not finished yet */
  ncclNumResults = 8
} ncclResult_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
/// Reduction operators. Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum.
typedef enum NCCL_ANY_INT {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/// Element types.
typedef enum NCCL_ANY_INT {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/// Where the scalar of ncclRedOpCreatePreMulSum lives, and so when it is read.
typedef enum NCCL_ANY_INT {
  ncclScalarDevice = 0,       /* when the operation runs */
  ncclScalarHostImmediate = 1 /* before ncclRedOpCreatePreMulSum returns */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR -1

/// Options of a communicator; start from NCCL_CONFIG_INITIALIZER. Fields that steer GPU resources are range-checked and have no
/// effect on hosts. `size`, `magic` and `version` tell the library which header the caller was built with.
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; /* 1: calls return when they are done */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* shown in logs and error texts */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

/* clang-format off */
#define NCCL_CONFIG_INITIALIZER {                                                                            \
  sizeof(ncclConfig_t),  0xcafebeef,            NCCL_VERSION_CODE,                                           \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* blocking */ \
  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                        /* netName */  \
  NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* commName */ \
  NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT }
/* clang-format on */

/* ---- Library ------------------------------------------------------------------------------------------------------------- */

/// The NCCL version whose behaviour the library has, as NCCL_VERSION_CODE.
ncclResult_t ncclGetVersion(int* version);
ncclResult_t pncclGetVersion(int* version);

/// A short fixed text for the code; never NULL.
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);

/// What the process's last failure was, in full; "" if there was none. `comm` is not used and may be NULL.
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);

/// Host memory from which messages travel fastest. Needs no communicator. The caller frees it with ncclMemFree.
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t pncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);
ncclResult_t pncclMemFree(void* ptr);

/* ---- Communicators ------------------------------------------------------------------------------------------------------- */

/// Makes an id for one new communicator. One rank calls it and sends the id to the others.
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);
ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId);

/// Joins the communicator as `rank` of `nranks`; returns when all ranks have joined, or fails at the set-up deadline. A thread
/// that holds several ranks makes the calls inside one group.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/// The same with options; a NULL `config` means the defaults.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);
ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);

/// Makes all `ndev` ranks of a communicator in this process: comm[0 .. ndev). `devlist` may be NULL.
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/// Divides `comm`: the ranks that gave the same `color` form a new communicator, ordered by `key`, then by old rank. Every rank of
/// `comm` calls it; with NCCL_SPLIT_NOCOLOR a rank takes part and gets NULL. A NULL `config` inherits. Refused while operations
/// are outstanding.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);

/// Waits until everything the communicator was asked to do is done on all ranks. Only ncclCommDestroy may follow.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommFinalize(ncclComm_t comm);

/// Finalizes if need be, then frees the communicator. The handle is dead afterwards.
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);

/// Ends whatever the communicator is doing and frees it, at once and without its peers' help; from any thread, during any call.
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);

/// *asyncError <- the failure that struck the communicator outside of a call, ncclInProgress, or ncclSuccess.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank);

/// Hints that a buffer will be used often. The handle may be NULL and is accepted by ncclCommDeregister.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle);

/* ---- Operators ----------------------------------------------------------------------------------------------------------- */

/// *op <- an operator that multiplies this rank's input by *scalar (of type `datatype`), then sums. Belongs to `comm` and `datatype`; may
/// be destroyed as soon as the calls that use it have returned.
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                                      ncclComm_t comm);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                                       ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives: every rank makes the same calls in the same order -------------------------------------------------------- */

/// recvbuff[i] = sum over ranks of sendbuff[i], on every rank. In place if sendbuff == recvbuff.
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream);

/// The same result, at `root` only; recvbuff is used only there.
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream);

/// sendbuff holds nranks blocks of `recvcount` elements; block r of the sum goes to rank r. In place if recvbuff == sendbuff + rank *
/// recvcount.
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream);

/// recvbuff <- nranks blocks of `sendcount` elements, block r from rank r. In place if sendbuff == recvbuff + rank * sendcount.
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                            cudaStream_t stream);

/// Both buffers have nranks blocks of `count` elements: block r of recvbuff is what rank r's sendbuff has in the block that is named by the
/// own rank. There is no in-place form: ncclInvalidArgument where the buffers overlap.
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream);

/// recvbuff <- the root's sendbuff, on every rank; sendbuff is used only at `root`.
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream);

/// Broadcast in place (the older form).
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* ---- Point to point: each send meets the peer's receive of the same count ---------------------------------------------------- */

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);

/* ---- Groups -------------------------------------------------------------------------------------------------------------- */

/// Calls between ncclGroupStart and its ncclGroupEnd are started together at the outermost ncclGroupEnd, which reports their errors.
/// Needed for several ranks in one thread and for sends and receives that depend on each other. Groups nest.
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);

#undef NCCL_ANY_INT

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */
