// SPDX-License-Identifier: Apache-2.0
// The C entry points through which a rank joins a communicator: unique ids, InitRank with and without configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/library.h"
#include "api/names.h"

namespace bootstrap = isthmus::bootstrap;
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

// The ids made here are served by this process until all ranks have come.
Status make_unique_id(Library& library, ncclUniqueId& packed) {
  Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(const bootstrap::Surroundings surroundings, Library::surroundings(*lock));
  const isthmus::Settings& settings = lock->settings();
  std::vector<isthmus::transport::Address> listen_at;
  bootstrap::UniqueId id;
  if (!settings.comm_id.empty()) {
    ISTHMUS_ASSIGN(id, bootstrap::id_from_comm_id(settings, surroundings.crypto, surroundings.random));
    for (const auto& root : id.roots) {
      if (root.family != 0) listen_at.push_back(root);
    }
  } else {
    ISTHMUS_ASSIGN(id, bootstrap::fresh_id(surroundings.random));
    ISTHMUS_ASSIGN(listen_at, lock->network()->local_addresses());
  }
  ISTHMUS_ASSIGN(auto root, bootstrap::Root::open(surroundings, {.timeout_ns = settings.setup_timeout_ns}, id, listen_at));
  const bootstrap::PackedId bytes = bootstrap::pack(root->id());
  std::memcpy(&packed, bytes.data(), sizeof(packed));
  library.control().add(std::make_shared<isthmus::comm::RootTask>(std::move(root), lock->log(), [](auto links, int32_t) { links.clear(); }));
  return {};
}

Status join(Library& library, ncclComm_t* comm, int nranks, const ncclUniqueId& packed, int rank, const Config& config) {
  bootstrap::PackedId bytes;
  std::memcpy(bytes.data(), &packed, sizeof(packed));
  ISTHMUS_ASSIGN(const bootstrap::UniqueId id, bootstrap::unpack(bytes));
  Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(const bootstrap::Surroundings surroundings, Library::surroundings(*lock));
  ISTHMUS_ASSIGN(isthmus::exec::ProcessCard card, lock->card());
  isthmus::comm::Join::Options options{.id = id, .rank = rank, .ranks = nranks, .name = config.name, .card = std::move(card)};
  ISTHMUS_ASSIGN(auto joining, isthmus::comm::Join::start(surroundings, lock->settings(), std::move(options), Driver::now(),
                                                          [&library] { library.driver().wake(); }));
  library.control().add(joining);
  library.driver().wait(lock, [&joining] { return joining->over(); });
  ISTHMUS_ASSIGN(isthmus::comm::Membership membership, joining->membership());
  ISTHMUS_ASSIGN(auto communicator, isthmus::comm::open_communicator(library.context(lock), std::move(membership)));
  *comm = library.adopt(std::move(communicator));
  return {};
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

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return entry([&](Library& library) -> Status {
    if (uniqueId == nullptr) return isthmus::invalid_argument("ncclGetUniqueId: the result pointer is NULL");
    return make_unique_id(library, *uniqueId).with_context("ncclGetUniqueId");
  });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return entry(
      [&](Library& library) { return init_rank(library, comm, nranks, commId, rank, config).with_context("ncclCommInitRankConfig"); });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return entry([&](Library& library) { return init_rank(library, comm, nranks, commId, rank, nullptr).with_context("ncclCommInitRank"); });
}

ISTHMUS_NCCL_NAME(ncclGetUniqueId);
ISTHMUS_NCCL_NAME(ncclCommInitRank);
ISTHMUS_NCCL_NAME(ncclCommInitRankConfig);

}  // extern "C"
