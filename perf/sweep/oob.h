// SPDX-License-Identifier: Apache-2.0
// Out of band: how the processes of a sweep agree on the unique id, on times and on errors without the library under test.
// One primitive, an allgather of small equal blocks, served by whatever started the processes: `isthmus run` (oob_launcher.cc),
// MPI (oob_mpi.cc) or nobody. Calls are collective over processes and made by one thread at a time. Throws Failure when the
// launcher or another process is gone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "launch_env.h"

namespace sweep {

class Oob {
 public:
  virtual ~Oob() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Who serves it, for the header: "isthmus run".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Every process's `block`, by rank, one after the other. All processes give the same number of bytes.
  virtual std::vector<std::byte> allgather(std::span<const std::byte> block) = 0;
  /// The last call, on success: lets the launcher know that this process leaves on purpose.
  virtual void finish() {}

  /// Every process's values: size() times values.size() of them.
  template <typename T>
  std::vector<T> gather(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::byte> bytes = allgather(std::as_bytes(values));
    const T* first = reinterpret_cast<const T*>(bytes.data());
    return {first, first + bytes.size() / sizeof(T)};
  }
  /// `value` of process 0.
  template <typename T>
  T broadcast(const T& value) {
    return gather<T>(std::span<const T>(&value, 1)).front();
  }
};

/// The launcher's service as `environment` describes it.
std::unique_ptr<Oob> connect_oob(const LaunchEnvironment& environment);

std::unique_ptr<Oob> connect_launcher(const LaunchEnvironment& environment);
std::unique_ptr<Oob> connect_mpi(Launcher launcher);

}  // namespace sweep
