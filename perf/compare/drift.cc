// SPDX-License-Identifier: Apache-2.0
// compare_drift: a job that makes the same allreduce again and again while its links change. Started by ./dev bar V5, on emulated hosts.
// Every rank checks every result. Rank 0 prints a line of JSON for each call: when it began, how long it took, the epoch of the plan by
// which it was made.
//     compare_drift BYTES SECONDS
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus.h"
#include "sweep/failure.h"
#include "sweep/oob.h"

namespace {

using sweep::check;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// 0: the communicator follows no plan.
long epoch_of(ncclComm_t comm, std::string& text) {
  size_t bytes = 0;
  if (isthmusCommPlan(comm, nullptr, &bytes) != ncclSuccess) return 0;
  text.resize(bytes);
  check(isthmusCommPlan(comm, text.data(), &bytes), "isthmusCommPlan");
  constexpr std::string_view kKey = "\"epoch\": ";
  const size_t at = text.find(kKey);
  long epoch = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + kKey.size(), text.data() + text.size(), epoch);
  return epoch;
}

void run(sweep::Oob& oob, size_t count, double limit_s) {
  ncclUniqueId id = {};
  if (oob.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  id = oob.broadcast(id);
  ncclComm_t comm = nullptr;
  const Clock::time_point begin = Clock::now();
  check(ncclCommInitRank(&comm, oob.size(), id, oob.rank()), "ncclCommInitRank");
  std::vector<float> in(count), out(count);
  std::string text;
  bool more = true;
  for (int call = 0; more; ++call) {
    // Rank 0's first element says whether there is another call, so that all end after the same.
    const auto own = static_cast<float>(oob.rank() + call % 1000);
    in.assign(count, own);
    in[0] = oob.rank() == 0 && seconds_since(begin) < limit_s ? 1.0F : 0.0F;
    const double at_s = seconds_since(begin);
    check(ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
    const double took_s = seconds_since(begin) - at_s;
    more = out[0] > 0;
    const auto ranks_sum = oob.size() * (oob.size() - 1) / 2;
    const auto sum = static_cast<float>(ranks_sum + oob.size() * (call % 1000));
    for (size_t i = 1; i < count; ++i) {
      if (out[i] == sum) continue;
      throw sweep::Failure{.exit_code = sweep::kExitWrongData,
                           .text = "call " + std::to_string(call) + " gave a wrong sum on rank " + std::to_string(oob.rank())};
    }
    const long epoch = epoch_of(comm, text);
    if (oob.rank() == 0) std::printf("{\"call\": %d, \"at_s\": %.6f, \"us\": %.1f, \"epoch\": %ld}\n", call, at_s, took_s * 1e6, epoch);
  }
  check(ncclCommDestroy(comm), "ncclCommDestroy");
}

template <typename T>
bool parse(std::string_view word, T& value) {
  return std::from_chars(word.data(), word.data() + word.size(), value).ptr == word.data() + word.size() && value > 0;
}

}  // namespace

int main(int argc, char** argv) {
  size_t bytes = 0;
  double limit_s = 0;
  if (argc != 3 || !parse(argv[1], bytes) || !parse(argv[2], limit_s) || bytes < 2 * sizeof(float)) {
    std::fprintf(stderr, "usage: %s BYTES SECONDS\n", argv[0]);
    return 2;
  }
  try {
    const std::unique_ptr<sweep::Oob> oob = sweep::connect_oob(sweep::read_launch_environment());
    run(*oob, bytes / sizeof(float), limit_s);
    oob->finish();
    return 0;
  } catch (const sweep::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", argv[0], failure.text.c_str());
    return failure.exit_code;
  }
}
