// SPDX-License-Identifier: Apache-2.0
// The C entry point of weighted means over a communicator's ranks. A communicator's hall has a lock of its own and is driven by the thread
// that calls; the driver's lock is not held meanwhile.
#include <fmt/format.h>

#include <climits>
#include <cstdint>

#include "api/hall.h"
#include "api/library.h"
#include "base/float_types.h"

namespace isthmus::api {
namespace {

constexpr TimeNs deadline_of(unsigned int ms) { return ms == 0 ? kNever : static_cast<TimeNs>(ms) * kMillisecondNs; }

bool is_ours(const isthmusGroupConfig_t* config) {
  return config != nullptr && config->size == sizeof(isthmusGroupConfig_t) && config->magic == ISTHMUS_MAGIC && config->version != 0;
}

Result<GroupTerms> terms_of(const isthmusGroupConfig_t* config) {
  if (!is_ours(config)) {
    return invalid_argument("the configuration is NULL, was not begun with ISTHMUS_GROUP_CONFIG_INITIALIZER, or comes from another header");
  }
  if (config->latePolicy != ISTHMUS_LATE_DROP && config->latePolicy != ISTHMUS_LATE_CARRY) {
    return invalid_argument(fmt::format("latePolicy {}: ISTHMUS_LATE_DROP and ISTHMUS_LATE_CARRY are accepted", config->latePolicy));
  }
  if (!(config->carryFactor >= 0 && config->carryFactor <= 1)) {
    return invalid_argument(fmt::format("carryFactor {}: 0 to 1 are accepted", config->carryFactor));
  }
  GroupTerms terms;
  terms.options.rules.largest_weight = config->largestWeight;
  terms.options.rules.masked = config->masked != 0;
  if (terms.options.rules.masked) {
    terms.options.rules.masks = {.min_cohort = config->minCohort, .degree = config->neighbours, .threshold = config->threshold};
    terms.options.rules.clip = config->clip;
  }
  terms.options.late = config->latePolicy == ISTHMUS_LATE_CARRY ? federated::LatePolicy::carry : federated::LatePolicy::drop;
  terms.options.carry_factor = config->carryFactor;
  terms.options.rules.noise = config->noise;
  terms.deadline_ns = deadline_of(config->deadlineMs);
  terms.quorum = config->deadlineMs == 0 ? 0 : config->quorum;
  terms.codec = config->codec == nullptr ? "thc" : config->codec;
  return terms;
}

/// Where these fail the call is no group sum at all, and no rank's others wait for it.
Status check_caller(cudaStream_t stream) {
  if (Library::group_depth() > 0) return invalid_usage("group sums block: they cannot be part of ncclGroupStart and ncclGroupEnd");
  if (!Library::is_null_stream(stream)) return invalid_argument("group sums block: pass the NULL stream");
  return {};
}

struct Vectors {
  const void* in;
  void* out;
  size_t count;
  DataType type;
};

Status check(const Vectors& vectors, int type, const isthmusGroupInfo_t* info) {
  constexpr size_t kMostElements = size_t{1} << 56;
  if (type != ncclFloat32 && type != ncclFloat16 && type != ncclBfloat16) {
    return invalid_argument(fmt::format("type {}: ncclFloat32, ncclFloat16 and ncclBfloat16 are served", type));
  }
  if (vectors.count == 0) return invalid_argument("a mean has at least one element");
  if (vectors.count > kMostElements) return invalid_argument(fmt::format("{} elements are more than any memory has", vectors.count));
  if (vectors.in == nullptr || vectors.out == nullptr) return invalid_argument("a buffer is NULL");
  if (info != nullptr && (info->size != sizeof(isthmusGroupInfo_t) || info->magic != ISTHMUS_MAGIC || info->version == 0)) {
    return invalid_argument("the info was not begun with ISTHMUS_GROUP_INFO_INITIALIZER, or comes from another header");
  }
  return {};
}

std::vector<float> as_floats(const Vectors& vectors) {
  std::vector<float> x(vectors.count);
  const auto* halves = static_cast<const uint16_t*>(vectors.in);
  if (vectors.type == DataType::float32) std::copy_n(static_cast<const float*>(vectors.in), vectors.count, x.begin());
  for (size_t i = 0; vectors.type != DataType::float32 && i < vectors.count; ++i) {
    x[i] = vectors.type == DataType::float16 ? Float16{halves[i]}.to_float() : BFloat16{halves[i]}.to_float();
  }
  return x;
}

void store(const std::vector<float>& x, const Vectors& vectors) {
  auto* halves = static_cast<uint16_t*>(vectors.out);
  if (vectors.type == DataType::float32) std::copy(x.begin(), x.end(), static_cast<float*>(vectors.out));
  for (size_t i = 0; vectors.type != DataType::float32 && i < vectors.count; ++i) {
    halves[i] = vectors.type == DataType::float16 ? Float16::from_float(x[i]).bits : BFloat16::from_float(x[i]).bits;
  }
}

/// Tells all ranks where rank 0 adds; also if it could not open its place: the others must not wait.
Status invite(Invitation& invitation, ncclComm_t comm) {
  return status_of(ncclBroadcast(&invitation, &invitation, sizeof invitation, ncclUint8, 0, comm, nullptr));
}

/// Ok if all ranks have come in; else on those that have, whose failure it is.
Status agree(const Status& mine, const comm::Membership& membership, ncclComm_t comm) {
  constexpr int32_t kCodes = 16;
  int32_t first = mine.ok() ? INT32_MAX : membership.rank * kCodes + static_cast<int32_t>(mine.code());
  ISTHMUS_TRY(status_of(ncclAllReduce(&first, &first, 1, ncclInt32, ncclMin, comm, nullptr)));
  if (first == INT32_MAX) return {};
  const bool usage = first % kCodes == static_cast<int32_t>(Code::invalid_usage);
  return {usage ? Code::invalid_usage : Code::remote_error,
          fmt::format("rank {} could not take part with its configuration; its own error says why", first / kCodes), first / kCodes};
}

/// Collective. All ranks are in afterwards, or none is: also a rank whose own call is wrong takes part, so that the others do not wait.
Status open(Hall& hall, const Result<GroupTerms>& terms, const bootstrap::Surroundings& surroundings, const Settings& settings,
            ncclComm_t comm) {
  hall.close();
  Invitation invitation{.terms_hash = terms.ok() ? terms->hash() : 0};
  const bool alone = hall.membership().ranks == 1;
  Status opened = terms.ok() ? Status() : terms.status();
  if (opened.ok() && hall.membership().rank == 0) opened = hall.listen(*terms, surroundings, settings, invitation);
  Status agreed = alone ? Status() : invite(invitation, comm);
  if (agreed.ok() && opened.ok()) opened = hall.enter(*terms, surroundings, settings, invitation);
  if (agreed.ok() && !alone) agreed = agree(opened, hall.membership(), comm);
  if (opened.ok() && agreed.ok()) return {};
  hall.close();  // on all ranks, so that all open it with the next call
  return opened.ok() ? agreed : opened;
}

void fill(isthmusGroupInfo_t& info, const Hall& hall, unsigned long long epoch) {
  const federated::Contributed& made = hall.result();
  const auto rank = static_cast<size_t>(hall.membership().rank);
  info.epoch = epoch;
  info.round = made.round;
  info.members = hall.membership().ranks;
  info.survivors = static_cast<int>(made.contributors.count());
  info.counted = made.contributors[rank] ? 1 : 0;
  info.lateRanks = static_cast<int>(made.late.count());
  constexpr size_t kBits = CHAR_BIT * sizeof(info.ranks[0]);
  static_assert(sizeof(info.ranks) * CHAR_BIT == federated::kMaxContributors);
  for (size_t i = 0; i < federated::kMaxContributors; ++i) {
    if (i % kBits == 0) info.ranks[i / kBits] = 0;
    info.ranks[i / kBits] |= static_cast<unsigned long long>(made.contributors[i]) << (i % kBits);
  }
  info.weightSum = federated::weight_of(made.weight_sum);
  info.modulusBits = made.word_bits;
  info.largestBeforeClip = hall.member().largest_before_clip();
  info.epsilon = hall.epsilon();
  info.epsilonTotal = info.epsilon > 0 ? hall.epsilon_total() : 0;
  info.sentBytes = made.sent_bytes;
  info.receivedBytes = made.received_bytes;
}

/// What `config` asks of so many ranks.
Result<GroupTerms> terms_for(const isthmusGroupConfig_t* config, uint32_t ranks) {
  ISTHMUS_ASSIGN(GroupTerms terms, terms_of(config));
  if (ranks > federated::kMaxContributors)
    return invalid_argument(fmt::format("{} ranks: {} are the most", ranks, federated::kMaxContributors));
  if (terms.quorum > ranks) return invalid_argument(fmt::format("a quorum of {} is more than the {} ranks", terms.quorum, ranks));
  ISTHMUS_TRY(federated::check(terms.options.rules, ranks));
  return terms;
}

Status mean(Library& library, const Vectors& vectors, int type, double weight, ncclComm_t comm, const isthmusGroupConfig_t* config,
            isthmusGroupInfo_t* info) {
  std::shared_ptr<Hall> hall;
  Settings settings;
  std::optional<bootstrap::Surroundings> surroundings;
  {
    exec::Driver::Lock lock(library.driver());
    ISTHMUS_ASSIGN(hall, library.hall(comm));
    ISTHMUS_ASSIGN(const bootstrap::Surroundings found, Library::surroundings(*lock));
    surroundings.emplace(found);
    settings = lock->settings();
  }
  const std::lock_guard guard(hall->mutex());
  Result<GroupTerms> terms = terms_for(config, static_cast<uint32_t>(hall->membership().ranks));
  if (const Status checked = check(vectors, type, info); !checked.ok()) terms = checked;
  if (!terms.ok() && hall->is_open()) {
    hall->sit_out(vectors.count, is_ours(config) ? config->epoch : hall->epoch());
    return terms.status();
  }
  if (!hall->is_open() || !hall->open_for(*terms)) ISTHMUS_TRY(open(*hall, terms, *surroundings, settings, comm));
  std::vector<float> x = as_floats(vectors);
  ISTHMUS_TRY(hall->sum(x, weight, config->epoch));
  store(x, vectors);
  if (info != nullptr) fill(*info, *hall, config->epoch);
  return {};
}

}  // namespace
}  // namespace isthmus::api

using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;

extern "C" {

ncclResult_t isthmusGroupAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, double weight,
                                   ncclComm_t comm, const isthmusGroupConfig_t* config, isthmusGroupInfo_t* info, cudaStream_t stream) {
  return entry([&](Library& library) -> Status {
    const char* const name = "isthmusGroupAllReduce";
    const isthmus::api::Vectors vectors{.in = sendbuff, .out = recvbuff, .count = count, .type = static_cast<isthmus::DataType>(datatype)};
    Status made = isthmus::api::check_caller(stream);
    if (made.ok()) made = isthmus::api::mean(library, vectors, datatype, weight, comm, config, info);
    return made.with_context(name);
  });
}

}  // extern "C"
