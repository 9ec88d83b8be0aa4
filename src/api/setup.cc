// SPDX-License-Identifier: Apache-2.0
// The C entry points through which a rank joins or divides a communicator: unique ids, InitRank, Split, their configuration.
#include "api/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "api/library.h"
#include "api/names.h"
#include "api/survey.h"
#include "bootstrap/comm_id.h"

namespace bootstrap = isthmus::bootstrap;
using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::api::PendingSetup;
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
Status open_root(Library& library, Driver::Lock& lock, const bootstrap::Surroundings& surroundings, bootstrap::UniqueId& id,
                 const std::vector<isthmus::transport::Address>& listen_at) {
  ISTHMUS_ASSIGN(auto root, bootstrap::Root::open(surroundings, {.timeout_ns = lock->settings().setup_timeout_ns}, id, listen_at));
  id = root->id();
  library.control().add(
      std::make_shared<isthmus::comm::RootTask>(std::move(root), isthmus::comm::control_options(lock->settings()), lock->log()));
  return {};
}

Status make_unique_id(Library& library, ncclUniqueId& packed) {
  Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(const bootstrap::Surroundings surroundings, Library::surroundings(*lock));
  bootstrap::UniqueId id;
  if (!lock->settings().comm_id.empty()) {  // every rank can make this id; rank 0 opens the root when it joins
    ISTHMUS_ASSIGN(id, bootstrap::id_from_comm_id(lock->settings(), surroundings.crypto, surroundings.random));
  } else {
    ISTHMUS_ASSIGN(id, bootstrap::fresh_id(surroundings.random));
    ISTHMUS_ASSIGN(const auto listen_at, lock->network()->local_addresses());
    ISTHMUS_TRY(open_root(library, lock, surroundings, id, listen_at));
  }
  const bootstrap::PackedId bytes = bootstrap::pack(id);
  std::memcpy(&packed, bytes.data(), sizeof(packed));
  return {};
}

Status begin_join(Library& library, Driver::Lock& lock, PendingSetup& pending, ncclComm_t* comm, int nranks, const ncclUniqueId& packed,
                  int rank, const ncclConfig_t* given) {
  if (comm == nullptr) return isthmus::invalid_argument("the result pointer is NULL");
  *comm = nullptr;
  if (nranks < 1) return isthmus::invalid_argument(fmt::format("{} ranks; at least one is needed", nranks));
  if (rank < 0 || rank >= nranks)
    return isthmus::invalid_argument(fmt::format("rank {} of {}: ranks are 0 to {}", rank, nranks, nranks - 1));
  ISTHMUS_ASSIGN(Config config, read_config(given));
  bootstrap::PackedId bytes;
  std::memcpy(bytes.data(), &packed, sizeof(packed));
  ISTHMUS_ASSIGN(bootstrap::UniqueId id, bootstrap::unpack(bytes));
  ISTHMUS_ASSIGN(const bootstrap::Surroundings surroundings, Library::surroundings(*lock));
  if (!lock->settings().comm_id.empty() && rank == 0) {
    std::vector<isthmus::transport::Address> listen_at;
    std::copy_if(id.roots.begin(), id.roots.end(), std::back_inserter(listen_at), [](const auto& root) { return root.family != 0; });
    ISTHMUS_TRY(open_root(library, lock, surroundings, id, listen_at));
  }
  ISTHMUS_ASSIGN(isthmus::exec::ProcessCard card, lock->card());
  isthmus::comm::Join::Options options{.id = id, .rank = rank, .ranks = nranks, .name = std::move(config.name), .card = std::move(card)};
  ISTHMUS_ASSIGN(auto join, isthmus::comm::Join::start(surroundings, lock->settings(), std::move(options), Driver::now(),
                                                       [&library] { library.driver().wake(); }));
  library.control().add(join);
  pending.joins.push_back({.join = std::move(join), .out = comm});
  return {};
}

Status begin_split(Library& library, PendingSetup& pending, ncclComm_t comm, int color, int key, ncclComm_t* out,
                   const ncclConfig_t* given) {
  if (out == nullptr) return isthmus::invalid_argument("the result pointer is NULL");
  *out = nullptr;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return isthmus::invalid_argument(fmt::format("color {} is neither NCCL_SPLIT_NOCOLOR nor 0 or more", color));
  }
  ISTHMUS_ASSIGN(auto parent, library.hold(comm));
  ISTHMUS_TRY(parent->state());
  ISTHMUS_ASSIGN(Config config, read_config(given));
  pending.splits.push_back(
      {.split = std::make_unique<isthmus::comm::Split>(std::move(parent), color, key, std::move(config.name)), .out = out});
  return {};
}

// Begins a set-up: at once, or as part of this thread's group.
template <typename Begin>
ncclResult_t set_up(const char* name, Begin&& begin) {
  return entry([&](Library& library) -> Status {
    isthmus::api::ThreadGroup& group = Library::thread_group();
    const bool grouped = Library::group_depth() > 0;
    Driver::Lock lock(library.driver());
    PendingSetup alone;
    Status begun = begin(library, lock, grouped ? group.setup : alone);
    if (grouped) {
      if (group.poison.ok() && !begun.ok() && begun.code() != isthmus::Code::invalid_argument) group.poison = begun.with_context(name);
      return begun.with_context(name);
    }
    if (!begun.ok()) return begun.with_context(name);
    return isthmus::api::complete(library, lock, alone).with_context(name);
  });
}

}  // namespace

namespace isthmus::api {

void PendingSetup::clear() {
  joins.clear();
  splits.clear();
}

namespace {

Status complete_joins(Library& library, exec::Driver::Lock& lock, PendingSetup& pending) {
  Status first;
  std::vector<Joined> made;
  for (PendingSetup::Joining& joining : pending.joins) {
    library.driver().wait(lock, [&joining] { return joining.join->over(); });
    auto membership = joining.join->membership();
    if (!membership.ok()) {
      if (first.ok()) first = membership.status();
      continue;
    }
    const auto watch = joining.join->make_watch(
        lock->settings(), exec::Driver::now(),
        [&library](const std::function<void()>& action) {
          {
            exec::Driver::Lock deliver_lock(library.driver());
            action();
          }
          library.driver().wake();
        },
        [&library] { library.control().wake(); });
    membership->messenger = watch;
    library.control().add(watch);
    auto communicator = comm::open_communicator(library.context(lock), std::move(*membership));
    if (!communicator.ok()) {
      if (first.ok()) first = communicator.status();
      continue;
    }
    made.push_back({.communicator = std::move(*communicator), .out = joining.out});
  }
  Status surveyed = run_surveys(library, lock, made);
  for (Joined& one : made) {
    if (one.communicator != nullptr) *one.out = library.adopt(std::move(one.communicator));
  }
  return first.ok() ? surveyed : first;
}

Status complete_splits(Library& library, exec::Driver::Lock& lock, PendingSetup& pending) {
  if (pending.splits.empty()) return {};
  auto launch = lock->take_launch();
  for (PendingSetup::Splitting& splitting : pending.splits) {
    if (Status started = splitting.split->start(*launch); !started.ok()) {
      lock->give_launch(std::move(launch));
      return started;
    }
  }
  lock->begin(*launch);
  const exec::Launch& exchanged = *launch;
  library.driver().wait(lock, [&exchanged] { return exchanged.done(); });
  const Status status = launch->status();
  lock->give_launch(std::move(launch));
  ISTHMUS_TRY(status);
  for (PendingSetup::Splitting& splitting : pending.splits) {
    ISTHMUS_ASSIGN(auto communicator, splitting.split->finish(library.context(lock)));
    if (communicator != nullptr) *splitting.out = library.adopt(std::move(communicator));
  }
  return {};
}

}  // namespace

Status complete(Library& library, exec::Driver::Lock& lock, PendingSetup& pending) {
  Status joined = complete_joins(library, lock, pending);
  Status split = complete_splits(library, lock, pending);
  pending.clear();
  return joined.ok() ? split : joined;
}

}  // namespace isthmus::api

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return entry([&](Library& library) -> Status {
    if (uniqueId == nullptr) return isthmus::invalid_argument("ncclGetUniqueId: the result pointer is NULL");
    return make_unique_id(library, *uniqueId).with_context("ncclGetUniqueId");
  });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return set_up("ncclCommInitRankConfig", [&](Library& library, Driver::Lock& lock, PendingSetup& pending) {
    return begin_join(library, lock, pending, comm, nranks, commId, rank, config);
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return set_up("ncclCommInitRank", [&](Library& library, Driver::Lock& lock, PendingSetup& pending) {
    return begin_join(library, lock, pending, comm, nranks, commId, rank, nullptr);
  });
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return set_up("ncclCommSplit", [&](Library& library, Driver::Lock&, PendingSetup& pending) {
    return begin_split(library, pending, comm, color, key, newcomm, config);
  });
}

ISTHMUS_NCCL_NAME(ncclGetUniqueId);
ISTHMUS_NCCL_NAME(ncclCommInitRank);
ISTHMUS_NCCL_NAME(ncclCommInitRankConfig);
ISTHMUS_NCCL_NAME(ncclCommSplit);

}  // extern "C"
