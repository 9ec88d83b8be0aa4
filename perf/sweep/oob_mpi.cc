// SPDX-License-Identifier: Apache-2.0
// The out-of-band service of mpirun: the MPI library is found at run time, in the form of the launcher that started us. Neither
// headers nor libraries of MPI are needed to build or to start. The two families differ in their handles: Open MPI's are addresses of
// objects that its library exports, MPICH's are fixed integers. Fails when the library is missing or MPI reports an error.
#include <dlfcn.h>

#include <array>
#include <cstdint>

#include "failure.h"
#include "oob.h"

namespace sweep {
namespace {

constexpr int kThreadSerialized = 2;  // MPI_THREAD_SERIALIZED: any thread may call, one at a time

void* find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) throw Failure{kExitInternal, std::string("the MPI library has no ") + name};
  return symbol;
}

/// MPI's few functions that are needed, for handles of type Handle.
template <typename Handle>
struct MpiApi {
  int (*init)(int*, char***, int, int*);
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle);
  int (*finalize)();

  explicit MpiApi(void* library) {
    load(library, "MPI_Init_thread", init);
    load(library, "MPI_Comm_rank", comm_rank);
    load(library, "MPI_Comm_size", comm_size);
    load(library, "MPI_Allgather", allgather);
    load(library, "MPI_Finalize", finalize);
  }

 private:
  template <typename Function>
  void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(find(library, name));
  }
};

template <typename Handle>
class MpiOob final : public Oob {
 public:
  MpiOob(void* library, std::string name, Handle world, Handle byte) : mpi_(library), name_(std::move(name)), world_(world), byte_(byte) {
    int provided = 0;
    check_mpi(mpi_.init(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
    check_mpi(mpi_.comm_rank(world_, &rank_), "MPI_Comm_rank");
    check_mpi(mpi_.comm_size(world_, &size_), "MPI_Comm_size");
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return name_; }

  std::vector<std::byte> allgather(std::span<const std::byte> block) override {
    std::vector<std::byte> all(block.size() * static_cast<size_t>(size_));
    const int bytes = static_cast<int>(block.size());
    check_mpi(mpi_.allgather(block.data(), bytes, byte_, all.data(), bytes, byte_, world_), "MPI_Allgather");
    return all;
  }
  void finish() override { check_mpi(mpi_.finalize(), "MPI_Finalize"); }

 private:
  static void check_mpi(int error, const char* what) {
    if (error != 0) throw Failure{kExitInternal, std::string(what) + " failed with code " + std::to_string(error)};
  }

  MpiApi<Handle> mpi_;
  std::string name_;
  Handle world_, byte_;
  int rank_ = 0, size_ = 1;
};

/// The first of the names that the loader finds. Global, because MPI libraries load plug-ins that refer to them.
void* open_first(std::span<const char* const> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL); library != nullptr) return library;
  }
  throw Failure{kExitInternal, std::string("started by mpirun, but its library is not found: ") + dlerror() +
                                   "; put its directory on LD_LIBRARY_PATH, or use isthmus run"};
}

}  // namespace

std::unique_ptr<Oob> connect_mpi(Launcher launcher) {
  if (launcher == Launcher::open_mpi) {
    static constexpr std::array<const char*, 2> kNames = {"libmpi.so.40", "libmpi.so"};
    void* library = open_first(kNames);
    return std::make_unique<MpiOob<void*>>(library, "mpirun (Open MPI)", find(library, "ompi_mpi_comm_world"),
                                           find(library, "ompi_mpi_byte"));
  }
  static constexpr std::array<const char*, 3> kNames = {"libmpich.so.12", "libmpi.so.12", "libmpich.so"};
  constexpr int kWorld = 0x44000000;
  constexpr int kByte = 0x4c00010d;
  return std::make_unique<MpiOob<int>>(open_first(kNames), "mpirun (MPICH)", kWorld, kByte);
}

}  // namespace sweep
