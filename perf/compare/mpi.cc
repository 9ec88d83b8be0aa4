// SPDX-License-Identifier: Apache-2.0
// compare_openmpi and compare_mpich: MPI behind the comparison's interface (see probe.h); the same source, built once for each. MPI's
// default error handler ends the job when a call fails.
#define OMPI_SKIP_MPICXX 1  // the C interface only
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "probe.h"

namespace compare {
namespace {

class Mpi final : public Library {
 public:
  Mpi() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    places_.resize(1);
    places_[0].rank = rank;
    counts_.resize(static_cast<size_t>(ranks_));
  }

  [[nodiscard]] int ranks() const override { return ranks_; }

  Buffer allocate(size_t floats) override {
    void* memory = nullptr;
    MPI_Alloc_mem(static_cast<MPI_Aint>(Buffer::bytes_for(floats)), MPI_INFO_NULL, static_cast<void*>(&memory));
    return {static_cast<float*>(memory), floats, [](float* given) { MPI_Free_mem(given); }};
  }

  void run(Collective collective, size_t count) override {
    const float* send = places_[0].send.data();
    float* recv = places_[0].recv.data();
    const int elements = static_cast<int>(count);
    switch (collective) {
      case Collective::allreduce:
        MPI_Allreduce(send, recv, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::allgather:
        MPI_Allgather(send, elements, MPI_FLOAT, recv, elements, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::reduce_scatter:
        MPI_Reduce_scatter_block(send, recv, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::reduce_scatter_counts:
        counts_.assign(counts_.size(), elements);
        MPI_Reduce_scatter(send, recv, counts_.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    }
  }

  void maximum(std::span<double> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

 private:
  int ranks_ = 0;
  std::vector<int> counts_;
};

}  // namespace
}  // namespace compare

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 1;
  try {
    compare::Mpi mpi;
    code = compare::run_probe(mpi, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
