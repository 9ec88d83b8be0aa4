// SPDX-License-Identifier: Apache-2.0
// The C entry points of an aggregator's ranks. A connection has a lock of its own and is driven by the thread that calls: nothing here
// holds the driver's lock while it waits, and nothing needs to be done between calls.
#include <fmt/format.h>

#include <climits>
#include <mutex>
#include <optional>

#include "api/library.h"
#include "bootstrap/comm_id.h"
#include "federated/aggregator.h"
#include "federated/contributor.h"
#include "federated/waiting.h"

namespace isthmus::api {

struct OpenAggregator {
  std::mutex mutex;
  std::unique_ptr<federated::Contributor> contributor;
};

namespace {

using federated::Contributor;

/// Milliseconds as the machines count, or another time for 0.
TimeNs time_of(unsigned long long ms, TimeNs otherwise) {
  if (ms == 0) return otherwise;
  return ms > static_cast<unsigned long long>(kNever / kMillisecondNs) ? kNever : static_cast<TimeNs>(ms) * kMillisecondNs;
}

Status check(const isthmusAggregatorConfig_t* config) {
  if (config == nullptr || config->size != sizeof(isthmusAggregatorConfig_t) || config->version == 0) {
    return invalid_argument(
        "the configuration is NULL, was not begun with ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER, or comes from another header");
  }
  if (config->address == nullptr) return invalid_argument("the aggregator's address is NULL: host:port is accepted");
  if (config->ranks < 1 || config->rank < 0 || config->rank >= config->ranks) {
    return invalid_argument(fmt::format("rank {} of {} ranks: ranks are numbered from 0", config->rank, config->ranks));
  }
  return {};
}

struct Place {
  Settings settings;
  std::optional<bootstrap::Surroundings> surroundings;
};

Result<Place> place_of(Library& library) {
  exec::Driver::Lock lock(library.driver());
  ISTHMUS_ASSIGN(const bootstrap::Surroundings surroundings, Library::surroundings(*lock));
  return Place{.settings = lock->settings(), .surroundings = surroundings};
}

/// Resolving names and reading the secret may block: without any lock.
Result<std::unique_ptr<Contributor>> contributor_of(Place& place, const isthmusAggregatorConfig_t& config) {
  Settings& settings = place.settings;
  if (config.secretFile != nullptr) settings.secret_file = config.secretFile;
  federated::ContributorOptions options{.rank = static_cast<uint32_t>(config.rank),
                                        .ranks = static_cast<uint32_t>(config.ranks),
                                        .reach_timeout_ns = time_of(config.connectTimeoutMs, settings.setup_timeout_ns),
                                        .call_timeout_ns = time_of(config.sumTimeoutMs, settings.operation_timeout_ns),
                                        .peer_timeout_ns = settings.peer_timeout_ns,
                                        .target = &kernels::select_target(settings.simd)};
  const auto addresses = bootstrap::resolve(config.address, settings);
  if (!addresses.ok()) return addresses.status().with_context(config.address);
  options.addresses = *addresses;
  if (config.codec != nullptr) {
    ISTHMUS_ASSIGN(const codec::ThcConfig codec, codec::parse_thc(config.codec));
    ISTHMUS_ASSIGN(options.thc, codec::make_thc(codec, options.ranks));
  }
  const Crypto& crypto = place.surroundings->crypto;
  ISTHMUS_ASSIGN(const Key secret, bootstrap::common_secret(settings, *addresses, crypto, random_bytes));
  return Contributor::make(*place.surroundings, federated::aggregator_key(crypto, secret), std::move(options));
}

Status connect(Library& library, isthmusAggregator_t* aggregator, const isthmusAggregatorConfig_t* config) {
  if (aggregator == nullptr) return invalid_argument("the result pointer is NULL");
  ISTHMUS_TRY(check(config));
  ISTHMUS_ASSIGN(Place place, place_of(library));
  auto opened = std::make_shared<OpenAggregator>();
  ISTHMUS_ASSIGN(opened->contributor, contributor_of(place, *config));
  opened->contributor->connect(federated::clock_now());
  ISTHMUS_TRY(federated::complete(*opened->contributor));
  const exec::Driver::Lock lock(library.driver());
  *aggregator = library.adopt(std::move(opened));
  return {};
}

void fill(isthmusAggregateResult_t& result, const federated::Contributed& sum, uint32_t rank) {
  result.round = sum.round;
  result.contributors = static_cast<int>(sum.contributors.count());
  result.late = sum.contributors[rank] ? 0 : 1;
  result.lateRanks = static_cast<int>(sum.late.count());
  constexpr size_t kWords = sizeof(result.ranks) / sizeof(result.ranks[0]), kBits = CHAR_BIT * sizeof(result.ranks[0]);
  static_assert(kWords * kBits == federated::kMaxContributors);
  for (size_t word = 0; word < kWords; ++word) {
    result.ranks[word] = 0;
    for (size_t bit = 0; bit < kBits; ++bit)
      result.ranks[word] |= static_cast<unsigned long long>(sum.contributors[word * kBits + bit]) << bit;
  }
  result.sentBytes = sum.sent_bytes;
  result.receivedBytes = sum.received_bytes;
}

Result<std::shared_ptr<OpenAggregator>> find(Library& library, isthmusAggregator_t aggregator) {
  const exec::Driver::Lock lock(library.driver());
  return library.find(aggregator);
}

Status sum(Library& library, isthmusAggregator_t aggregator, const federated::Contribution& contribution,
           isthmusAggregateResult_t* result) {
  if (result != nullptr && (result->size != sizeof(isthmusAggregateResult_t) || result->version == 0)) {
    return invalid_argument("the result was not begun with ISTHMUS_AGGREGATE_RESULT_INITIALIZER, or comes from another header");
  }
  ISTHMUS_ASSIGN(const auto opened, find(library, aggregator));
  const std::lock_guard guard(opened->mutex);
  Contributor* contributor = opened->contributor.get();
  if (contributor == nullptr) return invalid_usage("another thread has closed the aggregator");
  ISTHMUS_TRY(contributor->begin(contribution, federated::clock_now()));
  ISTHMUS_TRY(federated::complete(*contributor));
  if (result != nullptr) fill(*result, contributor->result(), contributor->rank());
  return {};
}

Result<federated::Signature> signature_of(size_t count, int type, int op) {
  if (type < 0 || type >= kDataTypes) return invalid_argument(fmt::format("{} is not a data type (0 to {})", type, kDataTypes - 1));
  if (op < 0 || op >= kReduceOps) return invalid_argument(fmt::format("{} is no operator of an aggregator: sum and avg are served", op));
  return federated::Signature{.count = count, .type = static_cast<DataType>(type), .op = static_cast<ReduceOp>(op)};
}

}  // namespace
}  // namespace isthmus::api

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;

extern "C" {

ncclResult_t isthmusAggregatorConnect(isthmusAggregator_t* aggregator, const isthmusAggregatorConfig_t* config) {
  return entry(
      [&](Library& library) { return isthmus::api::connect(library, aggregator, config).with_context("isthmusAggregatorConnect"); });
}

ncclResult_t isthmusAggregatorSum(isthmusAggregator_t aggregator, const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, isthmusAggregateResult_t* result) {
  return entry([&](Library& library) -> Status {
    const char* const name = "isthmusAggregatorSum";
    const auto signature = isthmus::api::signature_of(count, datatype, op);
    if (!signature.ok()) return signature.status().with_context(name);
    return isthmus::api::sum(library, aggregator, {.in = sendbuff, .out = recvbuff, .signature = *signature}, result).with_context(name);
  });
}

ncclResult_t isthmusAggregatorClose(isthmusAggregator_t aggregator) {
  return entry([&](Library& library) -> Status {
    auto opened = isthmus::api::find(library, aggregator);
    if (!opened.ok()) return opened.status().with_context("isthmusAggregatorClose");
    {
      const isthmus::exec::Driver::Lock lock(library.driver());
      library.forget(aggregator);
    }
    const std::lock_guard guard((*opened)->mutex);
    if (auto contributor = std::move((*opened)->contributor)) contributor->leave();
    return {};
  });
}

}  // extern "C"
