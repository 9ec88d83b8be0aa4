// SPDX-License-Identifier: Apache-2.0
// Collects what the compiler makes of the nccl.h that comes first on this unit's include path (see nccl_facts.h): values, sizes,
// offsets, the initialiser's bytes and the mangled type of every function.
#include "nccl_facts.h"

#include <nccl.h>

#include <cstddef>
#include <typeinfo>

namespace {

std::vector<Fact> values() {
#define VALUE(name) \
  Fact { #name, std::to_string(static_cast <long long>(name)) }
  return {
      VALUE(ncclSuccess),
      VALUE(ncclUnhandledCudaError),
      VALUE(ncclSystemError),
      VALUE(ncclInternalError),
      VALUE(ncclInvalidUsage),
      VALUE(ncclInvalidArgument),
      VALUE(ncclRemoteError),
      VALUE(ncclInProgress),
      VALUE(ncclSum),
      VALUE(ncclProd),
      VALUE(ncclMax),
      VALUE(ncclMin),
      VALUE(ncclAvg),
      VALUE(ncclNumOps),
      VALUE(ncclMaxRedOp),
      VALUE(ncclInt8),
      VALUE(ncclChar),
      VALUE(ncclUint8),
      VALUE(ncclInt32),
      VALUE(ncclInt),
      VALUE(ncclUint32),
      VALUE(ncclInt64),
      VALUE(ncclUint64),
      VALUE(ncclFloat16),
      VALUE(ncclHalf),
      VALUE(ncclFloat32),
      VALUE(ncclFloat),
      VALUE(ncclFloat64),
      VALUE(ncclDouble),
      VALUE(ncclBfloat16),
      VALUE(ncclFloat8e4m3),
      VALUE(ncclFloat8e5m2),
      VALUE(ncclNumTypes),
      VALUE(ncclScalarDevice),
      VALUE(ncclScalarHostImmediate),
      VALUE(NCCL_UNIQUE_ID_BYTES),
      VALUE(NCCL_MAJOR),
      VALUE(NCCL_VERSION(2, 7, 8)),
      VALUE(NCCL_VERSION(2, 28, 9)),
      VALUE(NCCL_CONFIG_UNDEF_INT),
      VALUE(ncclNumOps_dummy),
      VALUE(NCCL_SPLIT_NOCOLOR),
      VALUE(NCCL_VERSION(2, 9, 0)),
      VALUE(NCCL_VERSION(3, 0, 1)),
      VALUE(sizeof(ncclComm_t)),
      VALUE(sizeof(ncclUniqueId)),
      VALUE(alignof(ncclUniqueId)),
      VALUE(sizeof(ncclResult_t)),
      VALUE(sizeof(ncclRedOp_t)),
      VALUE(sizeof(ncclDataType_t)),
      VALUE(sizeof(ncclScalarResidence_t)),
      VALUE(sizeof(cudaStream_t)),
  };
#undef VALUE
}

std::vector<Fact> version_2_28() {
#define OFFSET(field) Fact{"offset of " #field, std::to_string(offsetof(ncclConfig_t, field))}
  std::vector<Fact> facts = {
      {"NCCL_VERSION_CODE", std::to_string(NCCL_VERSION_CODE)},
      {"ncclNumResults", std::to_string(ncclNumResults)},
      {"sizeof(ncclConfig_t)", std::to_string(sizeof(ncclConfig_t))},
      {"ncclConfig_t", typeid(ncclConfig_t).name()},
      OFFSET(size),
      OFFSET(magic),
      OFFSET(version),
      OFFSET(blocking),
      OFFSET(cgaClusterSize),
      OFFSET(minCTAs),
      OFFSET(maxCTAs),
      OFFSET(netName),
      OFFSET(splitShare),
      OFFSET(trafficClass),
      OFFSET(commName),
      OFFSET(collnetEnable),
      OFFSET(CTAPolicy),
      OFFSET(shrinkShare),
      OFFSET(nvlsCTAs),
      OFFSET(nChannelsPerNetPeer),
      OFFSET(nvlinkCentricSched),
  };
#undef OFFSET
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;  // 80 bytes without padding
  std::string bytes;
  for (size_t at = 0; at < sizeof config; ++at) bytes += std::to_string(reinterpret_cast<const unsigned char*>(&config)[at]) + " ";
  facts.push_back({"NCCL_CONFIG_INITIALIZER", bytes});
  return facts;
}

std::vector<Fact> functions() {
#define FUNCTION(call) \
  {"nccl" #call, typeid(decltype(nccl##call)).name()}, { "pnccl" #call, typeid(decltype(pnccl##call)).name() }
  return {
      FUNCTION(GetVersion),
      FUNCTION(GetUniqueId),
      FUNCTION(CommInitRank),
      FUNCTION(CommInitRankConfig),
      FUNCTION(CommInitAll),
      FUNCTION(CommFinalize),
      FUNCTION(CommDestroy),
      FUNCTION(CommAbort),
      FUNCTION(GetErrorString),
      FUNCTION(GetLastError),
      FUNCTION(CommGetAsyncError),
      FUNCTION(CommCount),
      FUNCTION(CommCuDevice),
      FUNCTION(CommUserRank),
      FUNCTION(CommSplit),
      FUNCTION(AllReduce),
      FUNCTION(ReduceScatter),
      FUNCTION(AllGather),
      FUNCTION(Broadcast),
      FUNCTION(Bcast),
      FUNCTION(Reduce),
      FUNCTION(Send),
      FUNCTION(Recv),
      FUNCTION(GroupStart),
      FUNCTION(GroupEnd),
      FUNCTION(RedOpCreatePreMulSum),
      FUNCTION(RedOpDestroy),
      FUNCTION(MemAlloc),
      FUNCTION(MemFree),
      FUNCTION(CommRegister),
      FUNCTION(CommDeregister),
  };
#undef FUNCTION
}

std::vector<Fact> all_facts() {
  std::vector<Fact> facts = values();
  // The configuration grows from release to release: compare it only with headers of the release whose layout we have.
  if (NCCL_VERSION_CODE >= 22800 && NCCL_VERSION_CODE < 22900) {
    for (Fact& fact : version_2_28()) facts.push_back(std::move(fact));
    for (Fact& fact : functions()) facts.push_back(std::move(fact));
  }
  return facts;
}

}  // namespace

std::vector<Fact> NCCL_FACTS_FUNCTION() { return all_facts(); }
