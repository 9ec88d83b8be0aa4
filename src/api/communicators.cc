// SPDX-License-Identifier: Apache-2.0
// The C entry points that make, question and end communicators, and those of operators, memory and errors.
#include <fmt/format.h>

#include <cstring>

#include "api/library.h"
#include "api/names.h"

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::comm::Communicator;
using isthmus::exec::Driver;

namespace {

// Runs `body` on a live communicator under the lock.
template <typename Body>
ncclResult_t with_communicator(const char* name, ncclComm_t comm, Body&& body) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    auto communicator = library.find(comm);
    if (!communicator.ok()) return communicator.status().with_context(name);
    return body(**communicator).with_context(name);
  });
}

// Ends a communicator, which another thread may be doing as well.
template <typename Begin>
Status end(Library& library, ncclComm_t comm, Begin&& begin) {
  Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(const auto communicator, library.hold(comm));
  begin(*communicator);
  library.driver().wait(lock, [&communicator] { return communicator->idle(); });
  return communicator->closed() ? Status() : library.destroy(comm);
}

template <typename T>
ncclResult_t query(const char* name, ncclComm_t comm, T* out, T (*read)(const Communicator&)) {
  return with_communicator(name, comm, [&](Communicator& communicator) -> Status {
    if (out == nullptr) return isthmus::invalid_argument("the result pointer is NULL");
    *out = read(communicator);
    return {};
  });
}

}  // namespace

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  if (version == nullptr) return isthmus::api::report(isthmus::invalid_argument("ncclGetVersion: the result pointer is NULL"));
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* pncclGetErrorString(ncclResult_t result) {
  switch (static_cast<int>(result)) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the Isthmus developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* pncclGetLastError(ncclComm_t) { return isthmus::api::last_error(); }

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return entry([&](Library& library) -> Status {
    if (comm == nullptr) return isthmus::invalid_argument("ncclCommInitAll: the array of communicators is NULL");
    if (ndev < 1) return isthmus::invalid_argument(fmt::format("ncclCommInitAll: {} devices; at least one is needed", ndev));
    std::vector<int32_t> devices;
    devices.reserve(static_cast<size_t>(ndev));
    for (int i = 0; i < ndev; ++i) devices.push_back(devlist != nullptr ? devlist[i] : i);
    Driver::Lock lock(library.driver());
    auto made = isthmus::comm::create_local(library.context(lock), devices);
    if (!made.ok()) return made.status().with_context("ncclCommInitAll");
    for (int i = 0; i < ndev; ++i) comm[i] = library.adopt(std::move((*made)[static_cast<size_t>(i)]));
    return {};
  });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    ISTHMUS_ASSIGN(const auto communicator, library.hold(comm));
    if (communicator->finalized()) return isthmus::invalid_usage("ncclCommFinalize: the communicator was finalized before");
    ISTHMUS_TRY(communicator->state());
    library.driver().wait(lock, [&communicator] { return communicator->idle(); });
    ISTHMUS_TRY(communicator->state());  // what was outstanding may have failed, or another thread may have aborted
    communicator->finalize();
    return {};
  });
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return entry([&](Library& library) -> Status {
    ISTHMUS_TRY(end(library, comm, [](Communicator&) {}).with_context("ncclCommDestroy"));
    library.last_words();  // the program may exit now, and those who are slower must not take that for a death
    return {};
  });
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return entry([&](Library& library) -> Status {
    ISTHMUS_TRY(end(library, comm, [](Communicator& communicator) { communicator.abort(); }).with_context("ncclCommAbort"));
    library.last_words();
    return {};
  });
}

// What has come since the last call may be what the error is about, and between calls nobody else may look at it.
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    auto communicator = library.find(comm);
    if (!communicator.ok()) return communicator.status().with_context("ncclCommGetAsyncError");
    if (asyncError == nullptr) return isthmus::invalid_argument("ncclCommGetAsyncError: the result pointer is NULL");
    library.driver().poll_once(lock);
    *asyncError = isthmus::api::report((*communicator)->state());
    return {};
  });
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return query<int>("ncclCommCount", comm, count, [](const Communicator& c) { return c.ranks(); });
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return query<int>("ncclCommUserRank", comm, rank, [](const Communicator& c) { return c.rank(); });
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return query<int>("ncclCommCuDevice", comm, device, [](const Communicator& c) { return c.membership().device; });
}

// Registration speeds nothing up on hosts: memory that travels fastest comes from ncclMemAlloc.
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t, void** handle) {
  return with_communicator("ncclCommRegister", comm, [&](Communicator&) -> Status {
    if (buff == nullptr || handle == nullptr) return isthmus::invalid_argument("buffer or handle pointer is NULL");
    *handle = nullptr;
    return {};
  });
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void*) {
  return with_communicator("ncclCommDeregister", comm, [](Communicator&) { return Status(); });
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                                       ncclComm_t comm) {
  return with_communicator("ncclRedOpCreatePreMulSum", comm, [&](Communicator& communicator) -> Status {
    if (op == nullptr || scalar == nullptr) return isthmus::invalid_argument("operator pointer or scalar is NULL");
    const int type = datatype;
    if (type < 0 || type >= isthmus::kDataTypes) return isthmus::invalid_argument(fmt::format("{} is not a data type", type));
    if (residence != ncclScalarHostImmediate && residence != ncclScalarDevice) {
      return isthmus::invalid_argument(fmt::format("{} is not a scalar residence", static_cast<int>(residence)));
    }
    // Without a device the scalar lies in host memory either way, so it is read now.
    isthmus::comm::Operator made{.op = isthmus::ReduceOp::sum, .scaled = true};
    std::memcpy(made.scalar.bytes.data(), scalar, isthmus::size_of(static_cast<isthmus::DataType>(type)));
    ISTHMUS_ASSIGN(const int number, communicator.create_operator(made, static_cast<isthmus::DataType>(type)));
    *op = static_cast<ncclRedOp_t>(number);
    return {};
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return with_communicator("ncclRedOpDestroy", comm, [&](Communicator& communicator) { return communicator.destroy_operator(op); });
}

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return entry([&](Library& library) -> Status {
    if (ptr == nullptr) return isthmus::invalid_argument("ncclMemAlloc: the result pointer is NULL");
    Driver::Lock lock(library.driver());
    auto memory = lock->segments().allocate(std::max<size_t>(size, 1));
    if (!memory.ok()) return memory.status().with_context("ncclMemAlloc");
    *ptr = *memory;
    return {};
  });
}

ncclResult_t pncclMemFree(void* ptr) {
  return entry([&](Library& library) -> Status {
    if (ptr == nullptr) return {};
    Driver::Lock lock(library.driver());
    return lock->segments().release(ptr).with_context("ncclMemFree");
  });
}

}  // extern "C"

extern "C" {
ISTHMUS_NCCL_NAME(ncclGetVersion);
ISTHMUS_NCCL_NAME(ncclGetErrorString);
ISTHMUS_NCCL_NAME(ncclGetLastError);
ISTHMUS_NCCL_NAME(ncclCommInitAll);
ISTHMUS_NCCL_NAME(ncclCommFinalize);
ISTHMUS_NCCL_NAME(ncclCommDestroy);
ISTHMUS_NCCL_NAME(ncclCommAbort);
ISTHMUS_NCCL_NAME(ncclCommGetAsyncError);
ISTHMUS_NCCL_NAME(ncclCommCount);
ISTHMUS_NCCL_NAME(ncclCommUserRank);
ISTHMUS_NCCL_NAME(ncclCommCuDevice);
ISTHMUS_NCCL_NAME(ncclCommRegister);
ISTHMUS_NCCL_NAME(ncclCommDeregister);
ISTHMUS_NCCL_NAME(ncclRedOpCreatePreMulSum);
ISTHMUS_NCCL_NAME(ncclRedOpDestroy);
ISTHMUS_NCCL_NAME(ncclMemAlloc);
ISTHMUS_NCCL_NAME(ncclMemFree);
}  // extern "C"
