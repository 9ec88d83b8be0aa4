// SPDX-License-Identifier: Apache-2.0
// The vocabulary shared by all rooms: element types, reduction operators, collectives. Values equal NCCL's enums, so
// api/ casts after a range check. Nothing here can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isthmus {

/// Element types, numbered as ncclDataType_t.
enum class DataType : uint8_t { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16, float8e4m3, float8e5m2 };
inline constexpr int kDataTypes = 12;

/// Reduction operators, numbered as ncclRedOp_t. PreMulSum is `sum` with a scalar per rank (see plan::OpShape).
enum class ReduceOp : uint8_t { sum, prod, max, min, avg };
inline constexpr int kReduceOps = 5;

/// What a call asks for. The definition of each is in plan/check.h, where it is proved.
enum class Collective : uint8_t { allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall, barrier, sendrecv };
inline constexpr int kCollectives = 8;

/// Bytes of one element.
constexpr size_t size_of(DataType type) {
  constexpr uint8_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[static_cast<size_t>(type)];
}

constexpr bool is_integer(DataType type) { return type <= DataType::uint64; }

/// nccl-tests' spelling: "int8", "half", "float", "bfloat16", "f8e4m3", ...
constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                   "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[kReduceOps] = {"sum", "prod", "max", "min", "avg"};
  return kNames[static_cast<size_t>(op)];
}

constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[kCollectives] = {"allreduce", "reduce_scatter", "allgather", "broadcast",
                                                     "reduce",    "alltoall",       "barrier",   "sendrecv"};
  return kNames[static_cast<size_t>(collective)];
}

/// True for collectives whose `root` argument has a meaning.
constexpr bool is_rooted(Collective collective) { return collective == Collective::broadcast || collective == Collective::reduce; }

/// True for collectives whose larger buffers have a block for each rank.
constexpr bool is_by_rank(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::allgather || collective == Collective::alltoall;
}

/// True for collectives that may write where they read. An all-to-all would overwrite what it has yet to send.
constexpr bool may_be_in_place(Collective collective) { return collective != Collective::alltoall; }

/// True for collectives that combine elements.
constexpr bool is_reducing(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter || collective == Collective::reduce;
}

/// A point in time or a duration on the monotonic clock, in nanoseconds. State machines are handed it and never read a clock.
using TimeNs = int64_t;
inline constexpr TimeNs kMicrosecondNs = 1'000;
inline constexpr TimeNs kMillisecondNs = 1'000'000;
inline constexpr TimeNs kSecondNs = 1'000'000'000;
inline constexpr TimeNs kNever = INT64_MAX;
/// `duration` (not negative) after `time`, at most kNever.
constexpr TimeNs later(TimeNs time, TimeNs duration) { return duration > kNever - time ? kNever : time + duration; }

}  // namespace isthmus
