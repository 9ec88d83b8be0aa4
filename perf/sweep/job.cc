// SPDX-License-Identifier: Apache-2.0
// Buffers, streams and communicators of one process (see job.h).
#include "job.h"

#include <cstdlib>
#include <cstring>

#include "failure.h"

namespace sweep {
namespace {

constexpr size_t kMallocAlignment = 4096;

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Job::Job(const Options& options, const Collective& collective, int process, int processes)
    : options_(options), collective_(collective), processes_(processes) {
  const int local = options.threads * options.ranks_per_thread;
  total_ranks_ = local * processes;
  ranks_.resize(static_cast<size_t>(local));
  for (int at = 0; at < local; ++at) ranks_[static_cast<size_t>(at)].rank = process * local + at;
}

Job::~Job() {
  for (Rank& rank : ranks_) {
    for (void* memory : rank.allocations) release(memory);
  }
}

size_t Job::buffer_bytes() const {
  const size_t unaligned = static_cast<size_t>(options_.unalign) * sizeof(double);
  return rounded_up(options_.max_bytes + unaligned + kGuardBytes, kMallocAlignment);
}

void* Job::obtain(size_t bytes) const {
  void* memory = nullptr;
  if (options_.malloc_buffers) {
    memory = std::aligned_alloc(kMallocAlignment, bytes);
    if (memory == nullptr) throw Failure{kExitInternal, "no memory for a buffer of " + std::to_string(bytes) + " bytes"};
  } else {
    check(ncclMemAlloc(&memory, bytes), "ncclMemAlloc");
  }
  std::memset(memory, 0, bytes);  // touched before anything is timed
  return memory;
}

void Job::release(void* memory) const {
  if (options_.malloc_buffers) {
    std::free(memory);
  } else if (memory != nullptr) {
    static_cast<void>(ncclMemFree(memory));
  }
}

void Job::allocate() {
  for (Rank& rank : ranks_) {
    for (void*& memory : rank.allocations) memory = obtain(buffer_bytes());
    rank.send = static_cast<std::byte*>(rank.allocations[0]);
    rank.recv = static_cast<std::byte*>(rank.allocations[1]);
    if (!options_.null_stream) check(isthmusStreamCreate(&rank.stream), "isthmusStreamCreate");
  }
}

void Job::join(const ncclUniqueId& id, int first, int count) {
  const auto begin = static_cast<size_t>(first);
  const auto end = begin + static_cast<size_t>(count);
  if (processes_ == 1 && count == total_ranks_) {
    std::vector<ncclComm_t> comms(end);
    check(ncclCommInitAll(comms.data(), count, nullptr), "ncclCommInitAll");
    for (size_t at = 0; at < end; ++at) ranks_[at].comm = comms[at];
  } else {
    check(ncclGroupStart(), "ncclGroupStart");
    for (size_t at = begin; at < end; ++at) {
      check(ncclCommInitRank(&ranks_[at].comm, total_ranks_, id, ranks_[at].rank), "ncclCommInitRank");
    }
    check(ncclGroupEnd(), "ncclGroupEnd (joining the communicator)");
  }
  for (size_t at = begin; options_.coded() && at < end; ++at) settle_codec(ranks_[at]);
  if (!options_.register_buffers) return;
  for (size_t at = begin; at < end; ++at) {
    for (size_t which : {0U, 1U}) {
      Rank& rank = ranks_[at];
      check(ncclCommRegister(rank.comm, rank.allocations[which], buffer_bytes(), &rank.registrations[which]), "ncclCommRegister");
    }
  }
}

isthmusCompression_t Job::compression() const {
  isthmusCompression_t how = ISTHMUS_COMPRESSION_INITIALIZER;
  how.codec = options_.codec.c_str();
  how.algorithm = options_.codec_algorithm.empty() ? nullptr : options_.codec_algorithm.c_str();
  how.required = 1;
  return how;
}

/// Whether the library knows the codec is found out before anything is measured. Afterwards calls without one are exact, whatever the
/// environment asks for.
void Job::settle_codec(const Rank& rank) const {
  isthmusCompression_t how = compression();
  if (isthmusCommSetCompression(rank.comm, &how) != ncclSuccess) {
    throw Failure{kExitBadValue, "--codec: " + std::string(ncclGetLastError(nullptr)), true};
  }
  how = ISTHMUS_COMPRESSION_INITIALIZER;
  how.codec = "none";
  check(isthmusCommSetCompression(rank.comm, &how), "isthmusCommSetCompression");
}

void Job::leave() {
  for (Rank& rank : ranks_) {
    if (options_.register_buffers) {
      for (void* registration : rank.registrations) check(ncclCommDeregister(rank.comm, registration), "ncclCommDeregister");
    }
    if (rank.stream != nullptr) check(isthmusStreamDestroy(rank.stream), "isthmusStreamDestroy");
  }
  check(ncclGroupStart(), "ncclGroupStart");
  for (Rank& rank : ranks_) check(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  check(ncclGroupEnd(), "ncclGroupEnd (destroying the communicators)");
}

void Job::abort() {
  for (Rank& rank : ranks_) {
    if (rank.comm != nullptr) static_cast<void>(ncclCommAbort(rank.comm));
  }
}

}  // namespace sweep
