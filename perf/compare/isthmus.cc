// SPDX-License-Identifier: Apache-2.0
// compare_isthmus: the NCCL API behind the comparison's interface (see probe.h). Started alone (-g N ranks in this process) or by
// `isthmus run`.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>

#include "nccl.h"
#include "probe.h"
#include "sweep/failure.h"
#include "sweep/oob.h"

namespace compare {
namespace {

using sweep::check;

class Isthmus final : public Library {
 public:
  Isthmus(sweep::Oob& oob, int local) : ranks_(oob.size() * local), comms_(static_cast<size_t>(local)) {
    places_.resize(static_cast<size_t>(local));
    for (int at = 0; at < local; ++at) places_[static_cast<size_t>(at)].rank = oob.rank() * local + at;
    ncclUniqueId id = {};
    if (oob.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    id = oob.broadcast(id);
    check(ncclGroupStart(), "ncclGroupStart");
    for (size_t at = 0; at < comms_.size(); ++at) check(ncclCommInitRank(&comms_[at], ranks_, id, places_[at].rank), "ncclCommInitRank");
    check(ncclGroupEnd(), "ncclGroupEnd");
  }
  ~Isthmus() override {
    static_cast<void>(ncclGroupStart());
    for (ncclComm_t comm : comms_) static_cast<void>(ncclCommDestroy(comm));
    static_cast<void>(ncclGroupEnd());
  }
  Isthmus(const Isthmus&) = delete;
  Isthmus& operator=(const Isthmus&) = delete;

  [[nodiscard]] int ranks() const override { return ranks_; }

  Buffer allocate(size_t floats) override {
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, Buffer::bytes_for(floats)), "ncclMemAlloc");
    return {static_cast<float*>(memory), floats, [](float* given) { static_cast<void>(ncclMemFree(given)); }};
  }

  void run(Collective collective, size_t count) override {
    if (comms_.size() > 1) check(ncclGroupStart(), "ncclGroupStart");
    for (size_t at = 0; at < comms_.size(); ++at) start(collective, places_[at], count, comms_[at]);
    if (comms_.size() > 1) check(ncclGroupEnd(), "ncclGroupEnd");
  }

  void maximum(std::span<double> values) override {
    // every local rank brings the same values; each writes its own copy
    std::vector<std::vector<double>> copies(comms_.size(), std::vector<double>(values.begin(), values.end()));
    check(ncclGroupStart(), "ncclGroupStart");
    for (size_t at = 0; at < comms_.size(); ++at) {
      double* copy = copies[at].data();
      check(ncclAllReduce(copy, copy, values.size(), ncclFloat64, ncclMax, comms_[at], nullptr), "ncclAllReduce");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
    std::copy(copies[0].begin(), copies[0].end(), values.begin());
  }

 private:
  static void start(Collective collective, Place& place, size_t count, ncclComm_t comm) {
    const float* send = place.send.data();
    float* recv = place.recv.data();
    switch (collective) {
      case Collective::allreduce:
        return check(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
      case Collective::allgather:
        return check(ncclAllGather(send, recv, count, ncclFloat32, comm, nullptr), "ncclAllGather");
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_counts:
        return check(ncclReduceScatter(send, recv, count, ncclFloat32, ncclSum, comm, nullptr), "ncclReduceScatter");
    }
  }

  int ranks_;
  std::vector<ncclComm_t> comms_;
};

}  // namespace
}  // namespace compare

int main(int argc, char** argv) {
  try {
    const std::unique_ptr<sweep::Oob> oob = sweep::connect_oob(sweep::read_launch_environment());
    int code = 0;
    {
      compare::Isthmus isthmus(*oob, compare::ranks_per_process(argc, argv));
      code = compare::run_probe(isthmus, argc, argv);
    }
    oob->finish();
    return code;
  } catch (const sweep::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", argv[0], failure.text.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  }
  return 1;
}
