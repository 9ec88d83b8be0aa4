// SPDX-License-Identifier: Apache-2.0
// What every entry point of a collective or a transfer goes through. Used by collectives.cc and compression.cc.
#pragma once

#include "api/library.h"

namespace isthmus::api {

/// A call as the user made it. `op` and `type` are NCCL's numbers, checked by run().
struct Arguments {
  const char* name;
  comm::Request request;
  int type, op;
  ncclComm_t comm;
  cudaStream_t stream;
  const isthmusCompression_t* compression = nullptr;  ///< with `compresses`; null: the communicator's, or else thc
  bool compresses = false;
};

/// Checks the call, then adds it to the thread's group, or begins it if there is none.
ncclResult_t run(Arguments&& arguments);

/// What `how` wishes for the communicator; `least_bytes` where it does not say. Fails with invalid_argument on anything that is not as
/// isthmus.h says, with invalid_usage where another communicator's call uses the feedback.
Result<comm::CodecWish> wish_of(Library& library, exec::Process& process, const isthmusCompression_t& how,
                                const comm::Communicator& communicator, uint64_t least_bytes);
/// Error feedback; invalid_argument for what is no handle.
Result<std::shared_ptr<Feedback>*> feedback_of(Library& library, isthmusFeedback_t handle);

}  // namespace isthmus::api
