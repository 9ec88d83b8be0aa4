// SPDX-License-Identifier: Apache-2.0
// Choice of the out-of-band service, and the one for a process on its own (see oob.h).
#include "oob.h"

namespace sweep {
namespace {

class AloneOob final : public Oob {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string name() const override { return "no launcher"; }
  std::vector<std::byte> allgather(std::span<const std::byte> block) override { return {block.begin(), block.end()}; }
};

}  // namespace

std::unique_ptr<Oob> connect_oob(const LaunchEnvironment& environment) {
  switch (environment.launcher) {
    case Launcher::isthmus_run:
      return connect_launcher(environment);
    case Launcher::open_mpi:
    case Launcher::mpich:
      return connect_mpi(environment.launcher);
    case Launcher::none:
      break;
  }
  return std::make_unique<AloneOob>();
}

}  // namespace sweep
