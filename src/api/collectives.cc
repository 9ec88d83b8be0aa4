// SPDX-License-Identifier: Apache-2.0
// The C entry points of collectives, send/recv and groups. Each checks its arguments, then adds one call to the thread's group; a
// call outside of a group is a group of its own, or begins at once if it is a collective on the NULL stream. Wrong arguments are refused on
// the spot and leave everything as it was.
#include <fmt/format.h>

#include "api/calls.h"
#include "api/names.h"

namespace isthmus::api {

namespace {

Status not_a_type(int type) { return invalid_argument(fmt::format("{} is not a data type (0 to {})", type, kDataTypes - 1)); }

// Starts the calls of the outermost group and, for those on the NULL stream, waits.
Status launch(Library& library, exec::Driver::Lock& lock, comm::Group& calls) {
  auto launched = calls.launch(*lock);
  calls.clear();
  if (!launched.ok()) return launched.status();
  std::unique_ptr<exec::Launch> waited = std::move(launched).value();
  if (waited == nullptr) {
    library.driver().poll_once(lock);
    library.driver().run_in_background();
    return {};
  }
  const exec::Launch& pending = *waited;
  library.driver().wait(lock, [&pending] { return pending.done(); });
  Status status = waited->status();
  lock->give_launch(std::move(waited));
  return status;
}

// A compressed call's wish: its own, the communicator's, or thc as it is.
Status compress(Library& library, exec::Process& process, Arguments& arguments, comm::Communicator& communicator) {
  const isthmusCompression_t usual = ISTHMUS_COMPRESSION_INITIALIZER;
  if (arguments.compression == nullptr && communicator.compression().wish().given()) return {};
  const isthmusCompression_t& how = arguments.compression == nullptr ? usual : *arguments.compression;
  comm::Request& request = arguments.request;
  ISTHMUS_ASSIGN(comm::CodecWish wish, wish_of(library, process, how, communicator, 0));
  request.wish = std::make_shared<const comm::CodecWish>(std::move(wish));
  if (how.feedback == nullptr) return {};
  ISTHMUS_ASSIGN(const std::shared_ptr<Feedback>* feedback, feedback_of(library, how.feedback));
  const size_t elements = (*feedback)->values.size();
  const uint64_t blocks = request.collective == Collective::reduce_scatter ? static_cast<uint64_t>(communicator.ranks()) : 1;
  if (elements == request.count * blocks) return {};
  return invalid_argument(
      fmt::format("the feedback was made for {} elements, but the send buffer has {}", elements, request.count * blocks));
}

// Finds and checks everything that the call names.
Status look_up(const Library& library, Arguments& arguments, comm::Communicator*& communicator) {
  communicator = library.recall(arguments.comm);
  if (communicator == nullptr) [[unlikely]] {
    ISTHMUS_ASSIGN(communicator, library.find(arguments.comm));
  }
  ISTHMUS_TRY(communicator->state());
  if (arguments.type < 0 || arguments.type >= kDataTypes) [[unlikely]]
    return not_a_type(arguments.type);
  arguments.request.type = static_cast<DataType>(arguments.type);
  ISTHMUS_TRY(communicator->find_operator(arguments.op, arguments.request.type, arguments.request.op));
  return communicator->check(arguments.request);
}

// A collective on the NULL stream, alone.
Status call_at_once(Library& library, exec::Driver::Lock& lock, const comm::Request& request, comm::Communicator& communicator) {
  exec::Ticket ticket;
  ISTHMUS_TRY(communicator.begin(request, ticket));
  if (!ticket.done) {
    library.driver().hurry();
    library.driver().wait(lock, [&ticket] { return ticket.done; });
  } else {
    library.driver().done_at_once(lock);
  }
  return std::move(ticket.status);
}

Status call(Library& library, Arguments& arguments) {
  exec::Driver::Lock lock(library.driver());
  comm::Communicator* communicator = nullptr;
  ISTHMUS_TRY(look_up(library, arguments, communicator));
  if (arguments.compresses) [[unlikely]] {
    ISTHMUS_TRY(compress(library, *lock, arguments, *communicator));
  }
  comm::StreamHandle stream = 0;
  if (!Library::is_null_stream(arguments.stream)) {
    ISTHMUS_ASSIGN(stream, Library::stream_of(*lock, arguments.stream));
  }
  if (Library::group_depth() > 0) {
    ISTHMUS_ASSIGN(auto held, library.hold(arguments.comm));
    ThreadGroup& group = Library::thread_group();
    group.held.push_back(std::move(held));
    group.calls.add(*communicator, arguments.request, stream);
    return {};
  }
  if (stream == 0 && arguments.request.collective != Collective::sendrecv && communicator->may_begin()) {
    return call_at_once(library, lock, arguments.request, *communicator);
  }
  comm::Group alone;
  alone.add(*communicator, arguments.request, stream);
  return launch(library, lock, alone);
}

}  // namespace

ncclResult_t run(Arguments&& arguments) {
  return entry([&](Library& library) {
    Status status = call(library, arguments);
    if (status.ok()) return status;
    status = status.with_context(arguments.name);
    ThreadGroup& group = Library::thread_group();
    if (Library::group_depth() > 0 && group.poison.ok() && status.code() != Code::invalid_argument) group.poison = status;
    return status;
  });
}

}  // namespace isthmus::api

using isthmus::Collective;
using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::api::run;

extern "C" {

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream) {
  return run({.name = "ncclAllReduce",
              .request = {.collective = Collective::allreduce, .in = sendbuff, .out = recvbuff, .count = count},
              .type = datatype,
              .op = op,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "ncclReduce",
              .request = {.collective = Collective::reduce, .in = sendbuff, .out = recvbuff, .count = count, .root = root},
              .type = datatype,
              .op = op,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "ncclReduceScatter",
              .request = {.collective = Collective::reduce_scatter, .in = sendbuff, .out = recvbuff, .count = recvcount},
              .type = datatype,
              .op = op,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                            cudaStream_t stream) {
  return run({.name = "ncclAllGather",
              .request = {.collective = Collective::allgather, .in = sendbuff, .out = recvbuff, .count = sendcount},
              .type = datatype,
              .op = ncclSum,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return run({.name = "ncclAlltoAll",
              .request = {.collective = Collective::alltoall, .in = sendbuff, .out = recvbuff, .count = count},
              .type = datatype,
              .op = ncclSum,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  return run({.name = "ncclBroadcast",
              .request = {.collective = Collective::broadcast, .in = sendbuff, .out = recvbuff, .count = count, .root = root},
              .type = datatype,
              .op = ncclSum,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return pncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "ncclSend",
              .request = {.collective = Collective::sendrecv, .in = sendbuff, .count = count, .root = peer, .is_send = true},
              .type = datatype,
              .op = ncclSum,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "ncclRecv",
              .request = {.collective = Collective::sendrecv, .out = recvbuff, .count = count, .root = peer, .is_send = false},
              .type = datatype,
              .op = ncclSum,
              .comm = comm,
              .stream = stream});
}

ncclResult_t pncclGroupStart(void) {
  ++Library::group_depth();
  return ncclSuccess;
}

ncclResult_t pncclGroupEnd(void) {
  return entry([](Library& library) -> Status {
    int& depth = Library::group_depth();
    if (depth == 0) return isthmus::invalid_usage("ncclGroupEnd without ncclGroupStart");
    if (--depth > 0) return {};
    isthmus::api::ThreadGroup& group = Library::thread_group();
    const Status poison = std::exchange(group.poison, Status());
    const bool mixed = !group.calls.empty() && !group.setup.empty();
    if (!poison.ok() || mixed) {
      group.clear();
      if (mixed) return isthmus::invalid_usage("ncclGroupEnd: a group may make communicators or use them, not both");
      return poison.with_context("ncclGroupEnd: a call of the group failed");
    }
    if (group.calls.empty() && group.setup.empty()) return {};
    isthmus::exec::Driver::Lock lock(library.driver());
    if (!group.setup.empty()) return isthmus::api::complete(library, lock, group.setup).with_context("ncclGroupEnd");
    const Status launched = isthmus::api::launch(library, lock, group.calls);
    group.clear();
    return launched.with_context("ncclGroupEnd");
  });
}

}  // extern "C"

extern "C" {
ISTHMUS_NCCL_NAME(ncclAllReduce);
ISTHMUS_NCCL_NAME(ncclReduce);
ISTHMUS_NCCL_NAME(ncclReduceScatter);
ISTHMUS_NCCL_NAME(ncclAllGather);
ISTHMUS_NCCL_NAME(ncclAlltoAll);
ISTHMUS_NCCL_NAME(ncclBroadcast);
ISTHMUS_NCCL_NAME(ncclBcast);
ISTHMUS_NCCL_NAME(ncclSend);
ISTHMUS_NCCL_NAME(ncclRecv);
ISTHMUS_NCCL_NAME(ncclGroupStart);
ISTHMUS_NCCL_NAME(ncclGroupEnd);
}  // extern "C"
