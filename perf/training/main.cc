// SPDX-License-Identifier: Apache-2.0
// training_check: whether training over compressed gradients comes to where exact ones bring it, and how soon. Each process of
// `isthmus run` is a rank, wherever it runs; alone it is the only rank. Fails where trainer.h says so.
#include <cstdio>
#include <exception>
#include <memory>

#include "options.h"
#include "sweep/failure.h"
#include "sweep/oob.h"
#include "trainer.h"

namespace {

using sweep::check;

void train(const training::Options& options, sweep::Oob& oob) {
  ncclUniqueId id = {};
  if (oob.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  id = oob.broadcast(id);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, oob.size(), id, oob.rank()), "ncclCommInitRank");
  {
    training::Trainer trainer(options, comm, oob);
    for (const std::string& codec : options.codecs) trainer.run(codec);
  }
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  oob.finish();
}

bool written_out() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace

int main(int argc, char** argv) {
  const training::Parsed parsed = training::parse_options(argc, argv);
  const sweep::LaunchEnvironment environment = sweep::read_launch_environment();
  if (!parsed.options) {
    if (environment.rank == 0) std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);  // all ranks would say the same
    return parsed.exit_code;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    train(*parsed.options, *sweep::connect_oob(environment));
    if (written_out()) return 0;
    std::fprintf(stderr, "%s: standard output could not be written (is the disk full?); results are missing\n", argv[0]);
  } catch (const sweep::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", argv[0], failure.text.c_str());
    return failure.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  }
  return sweep::kExitInternal;
}
