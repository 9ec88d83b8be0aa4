// SPDX-License-Identifier: Apache-2.0
// The C entry points of isthmus.h: host streams and the library's own version.
#include "isthmus.h"

#include <fmt/format.h>

#include "api/library.h"

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::exec::Driver;
using isthmus::exec::Stream;

namespace {

isthmus::Result<Stream*> find(Driver::Lock& lock, const char* name, cudaStream_t stream) {
  Stream* found = lock->find_stream(reinterpret_cast<uintptr_t>(stream));
  if (found == nullptr) {
    return isthmus::invalid_argument(
        fmt::format("{}: {} is not a stream of isthmusStreamCreate, or was destroyed", name, static_cast<void*>(stream)));
  }
  return found;
}

Status synchronize(Library& library, Driver::Lock& lock, const char* name, cudaStream_t stream) {
  ISTHMUS_ASSIGN(Stream * found, find(lock, name, stream));
  library.driver().wait(lock, [found] { return found->idle(); });
  return found->take_status().with_context(name);
}

}  // namespace

extern "C" {

ncclResult_t isthmusGetVersion(int* version) {
  if (version == nullptr) return isthmus::api::report(isthmus::invalid_argument("isthmusGetVersion: the result pointer is NULL"));
  *version = ISTHMUS_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t isthmusStreamCreate(cudaStream_t* stream) {
  return entry([&](Library& library) -> Status {
    if (stream == nullptr) return isthmus::invalid_argument("isthmusStreamCreate: the result pointer is NULL");
    Driver::Lock lock(library.driver());
    *stream = reinterpret_cast<cudaStream_t>(lock->create_stream());
    return {};
  });
}

ncclResult_t isthmusStreamSynchronize(cudaStream_t stream) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    return synchronize(library, lock, "isthmusStreamSynchronize", stream);
  });
}

ncclResult_t isthmusStreamQuery(cudaStream_t stream) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    ISTHMUS_ASSIGN(Stream * found, find(lock, "isthmusStreamQuery", stream));
    if (!found->idle()) lock->poll(Driver::now());
    if (!found->idle()) return {isthmus::Code::in_progress, "operations are still running"};
    return found->take_status().with_context("isthmusStreamQuery");
  });
}

ncclResult_t isthmusStreamDestroy(cudaStream_t stream) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    Status status = synchronize(library, lock, "isthmusStreamDestroy", stream);
    lock->destroy_stream(reinterpret_cast<uintptr_t>(stream));
    return status;
  });
}

}  // extern "C"
