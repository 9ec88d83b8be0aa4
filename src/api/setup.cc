// SPDX-License-Identifier: Apache-2.0
// The C entry points through which a rank joins a communicator: unique ids, InitRank with and without configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/library.h"
#include "api/names.h"

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::exec::Driver;

namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr size_t kSmallestConfig = 24;  // NCCL 2.14's

struct Config {
  std::string name;
};

// Fields that a client's header did not have yet, by the version that brought them, are reset: they lie in its tail padding.
void reset_newer_fields(ncclConfig_t& config) {
  const ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
  if (config.version < NCCL_VERSION(2, 17, 0)) {
    config.cgaClusterSize = defaults.cgaClusterSize;
    config.minCTAs = defaults.minCTAs;
    config.maxCTAs = defaults.maxCTAs;
    config.netName = defaults.netName;
  }
  if (config.version < NCCL_VERSION(2, 18, 0)) config.splitShare = defaults.splitShare;
  if (config.version < NCCL_VERSION(2, 26, 0)) config.trafficClass = defaults.trafficClass;
  if (config.version < NCCL_VERSION(2, 27, 0)) {
    config.commName = defaults.commName;
    config.collnetEnable = defaults.collnetEnable;
    config.CTAPolicy = defaults.CTAPolicy;
    config.shrinkShare = defaults.shrinkShare;
    config.nvlsCTAs = defaults.nvlsCTAs;
  }
  if (config.version < NCCL_VERSION(2, 28, 0)) {
    config.nChannelsPerNetPeer = defaults.nChannelsPerNetPeer;
    config.nvlinkCentricSched = defaults.nvlinkCentricSched;
  }
}

Status check_flag(const char* name, int value) {
  if (value == NCCL_CONFIG_UNDEF_INT || value == 0 || value == 1) return {};
  return isthmus::invalid_argument(fmt::format("config field {} is {}; it may be 0 or 1", name, value));
}

Status check_ctas(const ncclConfig_t& config) {
  for (const auto& [name, value] :
       {std::pair("minCTAs", config.minCTAs), std::pair("maxCTAs", config.maxCTAs), std::pair("cgaClusterSize", config.cgaClusterSize)}) {
    const bool cluster = std::string_view(name) == "cgaClusterSize";
    if (value == NCCL_CONFIG_UNDEF_INT || value > 0 || (cluster && value == 0)) continue;
    return isthmus::invalid_argument(fmt::format("config field {} is {}; it must be positive", name, value));
  }
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT && config.minCTAs > config.maxCTAs) {
    return isthmus::invalid_argument(
        fmt::format("config fields minCTAs ({}) and maxCTAs ({}) exclude each other", config.minCTAs, config.maxCTAs));
  }
  return {};
}

// Reads what a client of any NCCL version passes: its own size says how much there is, its version what of it has a meaning.
isthmus::Result<Config> read_config(const ncclConfig_t* given) {
  Config read;
  if (given == nullptr) return read;
  if (given->size < kSmallestConfig || given->magic != kConfigMagic) {
    return isthmus::invalid_argument("the ncclConfig_t was not initialised with NCCL_CONFIG_INITIALIZER");
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::memcpy(static_cast<void*>(&config), given, std::min(given->size, sizeof(config)));
  reset_newer_fields(config);
  ISTHMUS_TRY(check_flag("blocking", config.blocking));
  ISTHMUS_TRY(check_flag("splitShare", config.splitShare));
  ISTHMUS_TRY(check_flag("shrinkShare", config.shrinkShare));
  ISTHMUS_TRY(check_ctas(config));
  if (config.blocking == 0) {
    return isthmus::invalid_usage(
        "blocking=0 is not supported yet: calls on NULL streams block; use isthmusStreamCreate to go on meanwhile");
  }
  if (config.commName != nullptr) read.name = config.commName;
  return read;
}

Status join(Library&, ncclComm_t*, int, const ncclUniqueId&, int, const Config&) {
  return isthmus::invalid_usage("joining through a unique id is not built yet");
}

Status init_rank(Library& library, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank, const ncclConfig_t* given) {
  if (comm == nullptr) return isthmus::invalid_argument("the result pointer is NULL");
  *comm = nullptr;
  if (nranks < 1) return isthmus::invalid_argument(fmt::format("{} ranks; at least one is needed", nranks));
  if (rank < 0 || rank >= nranks)
    return isthmus::invalid_argument(fmt::format("rank {} of {}: ranks are 0 to {}", rank, nranks, nranks - 1));
  ISTHMUS_ASSIGN(const Config config, read_config(given));
  return join(library, comm, nranks, id, rank, config);
}

}  // namespace

extern "C" {

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return entry(
      [&](Library& library) { return init_rank(library, comm, nranks, commId, rank, config).with_context("ncclCommInitRankConfig"); });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return entry([&](Library& library) { return init_rank(library, comm, nranks, commId, rank, nullptr).with_context("ncclCommInitRank"); });
}

ISTHMUS_NCCL_NAME(ncclCommInitRank);
ISTHMUS_NCCL_NAME(ncclCommInitRankConfig);

}  // extern "C"
