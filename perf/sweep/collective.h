// SPDX-License-Identifier: Apache-2.0
// What the programs differ in: one value per collective says how to call it, how large its buffers are, what data goes in and
// what must come out, and how bandwidth is counted. Read by the workers; nothing here can fail.
#pragma once

#include <cstddef>
#include <string_view>

#include "element.h"
#include "isthmus.h"

namespace sweep {

/// One rank's call.
struct Call {
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// How the send and receive buffers relate to the call's count.
enum class Shape {
  whole,
  gather,
  scatter,
  exchange
};  // count : count · count : ranks x count · ranks x count : count · both ranks x count

struct Collective {
  std::string_view title;  ///< "AllReduce"
  Shape shape = Shape::whole;
  bool reduces = false;
  bool rooted = false;
  bool in_place = true;  ///< false: has no in-place form
  ncclResult_t (*start)(const Call& call) = nullptr;
  /// The same through a codec; null: there is no such call.
  ncclResult_t (*start_coded)(const Call& call, const isthmusCompression_t& how) = nullptr;
  /// Index of the first element that rank `rank` must receive; contributions that are moved, not reduced, follow each other.
  size_t (*received_from)(int rank, int ranks, int root, size_t count) = nullptr;
  double (*busbw_factor)(int ranks) = nullptr;

  [[nodiscard]] size_t send_count(size_t count, int ranks) const {
    return shape == Shape::scatter || shape == Shape::exchange ? count * static_cast<size_t>(ranks) : count;
  }
  [[nodiscard]] size_t recv_count(size_t count, int ranks) const {
    return shape == Shape::gather || shape == Shape::exchange ? count * static_cast<size_t>(ranks) : count;
  }
  /// The call's count for buffers of `bytes`: with a block per rank, blocks are multiples of 16 bytes, as in nccl-tests.
  [[nodiscard]] size_t call_count(size_t bytes, size_t element_bytes, int ranks) const;
  /// In place, elements by which the send (receive) buffer starts after the common one.
  [[nodiscard]] size_t send_offset(int rank, size_t count) const { return shape == Shape::gather ? static_cast<size_t>(rank) * count : 0; }
  [[nodiscard]] size_t recv_offset(int rank, size_t count) const { return shape == Shape::scatter ? static_cast<size_t>(rank) * count : 0; }
  [[nodiscard]] bool has_result(int rank, int root) const { return !(reduces && rooted) || rank == root; }
  /// Index of the first element that rank `rank` contributes.
  [[nodiscard]] size_t contributed_from(int rank, int ranks, size_t count) const {
    return reduces ? 0 : static_cast<size_t>(rank) * send_count(count, ranks);
  }
  /// What is received comes in so many runs of equally many elements, each `stride` elements after the one before.
  [[nodiscard]] int received_runs(int ranks) const { return shape == Shape::exchange ? ranks : 1; }
  [[nodiscard]] size_t received_stride(int ranks, size_t count) const { return send_count(count, ranks); }
};

extern const Collective kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kAllToAll, kSendRecv;

}  // namespace sweep
