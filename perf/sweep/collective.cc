// SPDX-License-Identifier: Apache-2.0
// The seven collectives of the sweeps (see collective.h).
#include "collective.h"

namespace sweep {
namespace {

double once(int) { return 1; }
double share_of_others(int ranks) { return (ranks - 1.0) / ranks; }
double twice_share_of_others(int ranks) { return 2 * share_of_others(ranks); }

size_t from_start(int, int, int, size_t) { return 0; }
size_t from_own_block(int rank, int, int, size_t count) { return static_cast<size_t>(rank) * count; }
size_t from_root(int, int, int root, size_t count) { return static_cast<size_t>(root) * count; }

int previous(int rank, int ranks) { return (rank + ranks - 1) % ranks; }
size_t from_previous(int rank, int ranks, int, size_t count) { return static_cast<size_t>(previous(rank, ranks)) * count; }

ncclResult_t all_reduce(const Call& c) { return ncclAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); }
ncclResult_t reduce_scatter(const Call& c) { return ncclReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); }
ncclResult_t all_gather(const Call& c) { return ncclAllGather(c.send, c.recv, c.count, c.type, c.comm, c.stream); }
ncclResult_t broadcast(const Call& c) { return ncclBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream); }
ncclResult_t all_to_all(const Call& c) { return ncclAlltoAll(c.send, c.recv, c.count, c.type, c.comm, c.stream); }
ncclResult_t reduce(const Call& c) { return ncclReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, c.stream); }

ncclResult_t all_reduce_coded(const Call& c, const isthmusCompression_t& how) {
  return isthmusAllReduceCompressed(c.send, c.recv, c.count, c.type, c.op, &how, c.comm, c.stream);
}
ncclResult_t reduce_scatter_coded(const Call& c, const isthmusCompression_t& how) {
  return isthmusReduceScatterCompressed(c.send, c.recv, c.count, c.type, c.op, &how, c.comm, c.stream);
}

/// A ring shift: to the next rank, from the previous one.
ncclResult_t send_recv(const Call& c) {
  if (const ncclResult_t result = ncclGroupStart(); result != ncclSuccess) return result;
  const ncclResult_t sent = ncclSend(c.send, c.count, c.type, (c.rank + 1) % c.ranks, c.comm, c.stream);
  const ncclResult_t received = ncclRecv(c.recv, c.count, c.type, previous(c.rank, c.ranks), c.comm, c.stream);
  const ncclResult_t ended = ncclGroupEnd();
  if (sent != ncclSuccess) return sent;
  return received != ncclSuccess ? received : ended;
}

}  // namespace

size_t Collective::call_count(size_t bytes, size_t element_bytes, int ranks) const {
  const size_t count = bytes / element_bytes;
  if (shape == Shape::whole) return count;
  return count / static_cast<size_t>(ranks) / (16 / element_bytes) * (16 / element_bytes);
}

const Collective kAllReduce = {.title = "AllReduce",
                               .reduces = true,
                               .start = all_reduce,
                               .start_coded = all_reduce_coded,
                               .received_from = from_start,
                               .busbw_factor = twice_share_of_others};
const Collective kReduceScatter = {.title = "ReduceScatter",
                                   .shape = Shape::scatter,
                                   .reduces = true,
                                   .start = reduce_scatter,
                                   .start_coded = reduce_scatter_coded,
                                   .received_from = from_own_block,
                                   .busbw_factor = share_of_others};
const Collective kAllGather = {
    .title = "AllGather", .shape = Shape::gather, .start = all_gather, .received_from = from_start, .busbw_factor = share_of_others};
const Collective kBroadcast = {.title = "Broadcast", .rooted = true, .start = broadcast, .received_from = from_root, .busbw_factor = once};
const Collective kReduce = {
    .title = "Reduce", .reduces = true, .rooted = true, .start = reduce, .received_from = from_start, .busbw_factor = once};
const Collective kAllToAll = {.title = "AlltoAll",
                              .shape = Shape::exchange,
                              .in_place = false,
                              .start = all_to_all,
                              .received_from = from_own_block,
                              .busbw_factor = share_of_others};
const Collective kSendRecv = {.title = "SendRecv",
                              .in_place = false,  // a shift would read what it overwrites
                              .start = send_recv,
                              .received_from = from_previous,
                              .busbw_factor = once};

}  // namespace sweep
