// SPDX-License-Identifier: Apache-2.0
// The C entry points of compressed sums: calls, the communicator's codec, error feedback, and the question what became of it. Wrong
// arguments are refused on the spot with what is allowed, and leave everything as it was.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "api/calls.h"
#include "base/text.h"
#include "collectives/registry.h"

namespace isthmus::api {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double share(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }

template <size_t kSize>
void put(char (&to)[kSize], std::string_view text) {
  const size_t bytes = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = 0;
}

// The name with the program's lifetime.
Result<std::string_view> algorithm_of(const char* name) {
  if (name == nullptr || *name == 0) return std::string_view();
  std::vector<std::string_view> names;
  for (const plan::Algorithm* algorithm : collectives::compressed_registry()) {
    if (algorithm->name == name) return algorithm->name;
    if (std::find(names.begin(), names.end(), algorithm->name) == names.end()) names.push_back(algorithm->name);
  }
  return invalid_argument(fmt::format("'{}' is no algorithm of compressed sums: there are {}", name, join(names, ", ")));
}

// By a call that has not ended.
bool is_used(const std::shared_ptr<Feedback>& feedback) { return feedback.use_count() > 1; }

}  // namespace

Result<comm::CodecWish> wish_of(Library& library, exec::Process& process, const isthmusCompression_t& how,
                                const comm::Communicator& communicator, uint64_t least_bytes) {
  if (how.size != sizeof(isthmusCompression_t) || how.version == 0) {
    return invalid_argument("the isthmusCompression_t was not begun with ISTHMUS_COMPRESSION_INITIALIZER, or comes from another header");
  }
  const std::string_view name = how.codec == nullptr ? "thc" : how.codec;
  ISTHMUS_ASSIGN(const codec::Named* named, process.codecs().get(name, static_cast<uint32_t>(communicator.ranks())));
  comm::CodecWish wish = {.codec = named, .min_bytes = how.minBytes == 0 ? least_bytes : how.minBytes, .must = how.required != 0};
  ISTHMUS_ASSIGN(wish.algorithm, algorithm_of(how.algorithm));
  if (named->feeds_back() && how.feedback == nullptr) {
    return invalid_argument(fmt::format("'{}' keeps what was lost for the next call, in an isthmusFeedback_t: there is none", name));
  }
  if (how.feedback != nullptr) {
    if (named->thc != nullptr && !named->feeds_back()) {
      return invalid_argument(fmt::format("with feedback, codec '{}' needs the option ef=on, on all ranks", name));
    }
    ISTHMUS_ASSIGN(const std::shared_ptr<Feedback>* feedback, feedback_of(library, how.feedback));
    if (is_used(*feedback) && (*feedback)->user != &communicator) {
      return invalid_usage("the feedback is used by a call on another communicator that has not ended; each needs a feedback of its own");
    }
    (*feedback)->user = &communicator;
    wish.residual = std::shared_ptr<float>(*feedback, (*feedback)->values.data());
  }
  return wish;
}

Result<std::shared_ptr<Feedback>*> feedback_of(Library& library, isthmusFeedback_t handle) {
  std::shared_ptr<Feedback>* found = library.find_feedback(handle);
  if (found != nullptr) return found;
  return invalid_argument(fmt::format("{} is not a handle of isthmusFeedbackCreate, or was destroyed", static_cast<const void*>(handle)));
}

namespace {

// A body that is given the library and the feedback's values, which no call uses.
template <typename Body>
ncclResult_t with_feedback(const char* name, isthmusFeedback_t handle, const Body& body) {
  return entry([&](Library& library) -> Status {
    exec::Driver::Lock lock(library.driver());
    auto feedback = feedback_of(library, handle);
    if (!feedback.ok()) return feedback.status().with_context(name);
    if (is_used(**feedback)) {
      return invalid_usage(fmt::format("{}: a call that uses the feedback has not ended; synchronize its stream first", name));
    }
    return body(library, (**feedback)->values);
  });
}

// A body that is given values and memory of as many.
template <typename Body>
ncclResult_t exchange_feedback(const char* name, isthmusFeedback_t handle, const void* memory, size_t count, const Body& body) {
  return with_feedback(name, handle, [&](Library&, std::vector<float>& values) -> Status {
    if (memory == nullptr && count > 0) return invalid_argument(fmt::format("{}: the memory is NULL", name));
    if (values.size() != count)
      return invalid_argument(fmt::format("{}: the feedback has {} elements, not {}", name, values.size(), count));
    body(values);
    return {};
  });
}

void fill(isthmusCompressionInfo_t& info, comm::Compression& compression) {
  const exec::CodedCalls& calls = compression.calls();
  const codec::Named* used = compression.used();
  info.compressed = used != nullptr ? 1 : 0;
  put(info.codec, used != nullptr ? std::string_view(used->text) : "");
  put(info.algorithm, used != nullptr ? compression.algorithm() : "");
  put(info.refusal, compression.refusal());
  info.predictedError = used != nullptr && used->thc != nullptr ? used->thc->predicted_nmse(false) : kUnknown;
  info.sentBytes = calls.last.sent_bytes;
  info.measuredError = share(calls.last.error, calls.last.energy);
  info.compressedCalls = calls.all.calls;
  info.totalSentBytes = calls.all.sent_bytes;
  info.totalMeasuredError = share(calls.all.error, calls.all.energy);
  using Reason = comm::Compression::Reason;
  const auto refused = [&](Reason reason) { return compression.refused()[static_cast<size_t>(reason)]; };
  info.refusedForType = refused(Reason::type);
  info.refusedForOp = refused(Reason::op);
  info.refusedForSize = refused(Reason::size);
  info.refusedForRanks = refused(Reason::ranks);
}

}  // namespace
}  // namespace isthmus::api

using isthmus::Collective;
using isthmus::invalid_argument;
using isthmus::Status;
using isthmus::api::entry;
using isthmus::api::Library;
using isthmus::api::run;
using isthmus::exec::Driver;

extern "C" {

ncclResult_t isthmusAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                        const isthmusCompression_t* how, ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "isthmusAllReduceCompressed",
              .request = {.collective = Collective::allreduce, .in = sendbuff, .out = recvbuff, .count = count},
              .type = datatype,
              .op = op,
              .comm = comm,
              .stream = stream,
              .compression = how,
              .compresses = true});
}

ncclResult_t isthmusReduceScatterCompressed(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                            const isthmusCompression_t* how, ncclComm_t comm, cudaStream_t stream) {
  return run({.name = "isthmusReduceScatterCompressed",
              .request = {.collective = Collective::reduce_scatter, .in = sendbuff, .out = recvbuff, .count = recvcount},
              .type = datatype,
              .op = op,
              .comm = comm,
              .stream = stream,
              .compression = how,
              .compresses = true});
}

ncclResult_t isthmusCommSetCompression(ncclComm_t comm, const isthmusCompression_t* how) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    const char* const name = "isthmusCommSetCompression";
    auto communicator = library.find(comm);
    if (!communicator.ok()) return communicator.status().with_context(name);
    if (how == nullptr) {
      (*communicator)->compression().set_wish({});
      return {};
    }
    if (how->feedback != nullptr) return invalid_argument(fmt::format("{}: feedback is kept for one buffer, not for a communicator", name));
    auto wish = isthmus::api::wish_of(library, *lock, *how, **communicator, isthmus::comm::kLeastCompressedBytes);
    if (!wish.ok()) return wish.status().with_context(name);
    (*communicator)->compression().set_wish(*wish);
    return {};
  });
}

ncclResult_t isthmusCommGetCompressionInfo(ncclComm_t comm, isthmusCompressionInfo_t* info) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    const char* const name = "isthmusCommGetCompressionInfo";
    auto communicator = library.find(comm);
    if (!communicator.ok()) return communicator.status().with_context(name);
    if (info == nullptr || info->size != sizeof(isthmusCompressionInfo_t) || info->version == 0) {
      return invalid_argument(fmt::format("{}: the info is NULL or was not begun with ISTHMUS_COMPRESSION_INFO_INITIALIZER", name));
    }
    isthmus::api::fill(*info, (*communicator)->compression());
    return {};
  });
}

ncclResult_t isthmusFeedbackCreate(isthmusFeedback_t* feedback, size_t count) {
  return entry([&](Library& library) -> Status {
    if (feedback == nullptr) return invalid_argument("isthmusFeedbackCreate: the result pointer is NULL");
    if (count > SIZE_MAX / 2 / sizeof(float)) {
      return invalid_argument(fmt::format("isthmusFeedbackCreate: {} elements are more than any memory has", count));
    }
    Driver::Lock lock(library.driver());
    *feedback = library.make_feedback(count);
    return {};
  });
}

ncclResult_t isthmusFeedbackDestroy(isthmusFeedback_t feedback) {
  return isthmus::api::with_feedback("isthmusFeedbackDestroy", feedback, [&](Library& library, std::vector<float>&) -> Status {
    library.forget_feedback(feedback);
    return {};
  });
}

ncclResult_t isthmusFeedbackReset(isthmusFeedback_t feedback) {
  return isthmus::api::with_feedback("isthmusFeedbackReset", feedback, [](Library&, std::vector<float>& values) -> Status {
    std::fill(values.begin(), values.end(), 0.0F);
    return {};
  });
}

ncclResult_t isthmusFeedbackExport(isthmusFeedback_t feedback, float* to, size_t count) {
  return isthmus::api::exchange_feedback("isthmusFeedbackExport", feedback, to, count,
                                         [&](const std::vector<float>& values) { std::copy(values.begin(), values.end(), to); });
}

ncclResult_t isthmusFeedbackImport(isthmusFeedback_t feedback, const float* from, size_t count) {
  return isthmus::api::exchange_feedback("isthmusFeedbackImport", feedback, from, count,
                                         [&](std::vector<float>& values) { std::copy_n(from, values.size(), values.begin()); });
}

}  // extern "C"
