// SPDX-License-Identifier: Apache-2.0
// compare_growth: what communicators and calls add to a process's memory. Started alone by ./dev perf --targets; prints two lines of
// JSON: the address space and resident memory that each further one-rank communicator takes, with calls of kCallBytes made on it, and
// what CALLS allreduces of two ranks in this process add to resident memory and open descriptors.
//     compare_growth [CALLS]
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "buffer.h"
#include "nccl.h"
#include "sweep/failure.h"

namespace {

using sweep::check;

constexpr int kCommunicators = 64;
constexpr size_t kCallBytes = 4 << 20;
constexpr int kWarmCalls = 10'000;

struct Use {
  int64_t mapped_bytes = 0, resident_bytes = 0, descriptors = 0;
};

Use now() {
  Use use;
  std::ifstream("/proc/self/statm") >> use.mapped_bytes >> use.resident_bytes;
  const int64_t page = sysconf(_SC_PAGESIZE);
  use.mapped_bytes *= page;
  use.resident_bytes *= page;
  if (DIR* folder = opendir("/proc/self/fd"); folder != nullptr) {
    while (readdir(folder) != nullptr) ++use.descriptors;
    closedir(folder);
  }
  return use;
}

/// A communicator of `ranks` ranks, all in this process.
std::vector<ncclComm_t> join(int ranks) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  check(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");
  return comms;
}

void leave(const std::vector<ncclComm_t>& comms) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (ncclComm_t comm : comms) check(ncclCommDestroy(comm), "ncclCommDestroy");
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void use_one_rank(ncclComm_t comm, float* in, float* out) {
  constexpr size_t count = kCallBytes / sizeof(float);
  check(ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
  check(ncclReduceScatter(in, out, count, ncclFloat32, ncclSum, comm, nullptr), "ncclReduceScatter");
  check(ncclAllGather(in, out, count, ncclFloat32, comm, nullptr), "ncclAllGather");
}

void measure_one_rank() {
  const compare::Buffer in(kCallBytes / sizeof(float)), out(kCallBytes / sizeof(float));
  std::vector<ncclComm_t> comms = join(1);
  use_one_rank(comms[0], in.data(), out.data());
  const Use before = now();
  for (int at = 0; at < kCommunicators; ++at) {
    comms.push_back(join(1)[0]);
    use_one_rank(comms.back(), in.data(), out.data());
  }
  const Use after = now();
  leave(comms);
  std::printf("{\"what\": \"one_rank\", \"mapped_bytes\": %lld, \"resident_bytes\": %lld}\n",
              static_cast<long long>((after.mapped_bytes - before.mapped_bytes) / kCommunicators),
              static_cast<long long>((after.resident_bytes - before.resident_bytes) / kCommunicators));
}

void measure_calls(int calls) {
  const std::vector<ncclComm_t> comms = join(2);
  std::array<float, 2> in = {1, 2}, out{};
  const auto run = [&](int times) {
    for (int call = 0; call < times; ++call) {
      check(ncclGroupStart(), "ncclGroupStart");
      for (size_t rank = 0; rank < 2; ++rank) {
        check(ncclAllReduce(&in[rank], &out[rank], 1, ncclFloat32, ncclSum, comms[rank], nullptr), "ncclAllReduce");
      }
      check(ncclGroupEnd(), "ncclGroupEnd");
    }
  };
  run(kWarmCalls);
  const Use before = now();
  run(calls);
  const Use after = now();
  leave(comms);
  std::printf("{\"what\": \"calls\", \"calls\": %d, \"resident_bytes\": %lld, \"descriptors\": %lld}\n", calls,
              static_cast<long long>(after.resident_bytes - before.resident_bytes),
              static_cast<long long>(after.descriptors - before.descriptors));
}

}  // namespace

int main(int argc, char** argv) {
  int calls = 1'000'000;
  if (argc > 1) {
    const std::string_view word = argv[1];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), calls);
    if (argc > 2 || error != std::errc() || end != word.data() + word.size() || calls < 1) {
      std::fprintf(stderr, "%s: '%s' is no number of calls\n", argv[0], argv[1]);
      return 2;
    }
  }
  try {
    measure_one_rank();
    measure_calls(calls);
  } catch (const sweep::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", argv[0], failure.text.c_str());
    return 1;
  }
  return 0;
}
