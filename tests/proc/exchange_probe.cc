// SPDX-License-Identifier: Apache-2.0
// A program for launcher_test.cc to start: exchanges numbers out of band, as the sweeps do, and prints what went wrong. With the argument
// "leave", rank 1 goes away before the second exchange.
#include <cstdio>
#include <cstring>
#include <vector>

#include "sweep/failure.h"
#include "sweep/oob.h"

int main(int argc, char** argv) {
  const bool leave = argc > 1 && std::strcmp(argv[1], "leave") == 0;
  try {
    const auto oob = sweep::connect_oob(sweep::read_launch_environment());
    for (int round = 0; round < 50; ++round) {
      if (leave && round == 1 && oob->rank() == 1) return 0;
      const std::vector<int> mine(static_cast<size_t>(1 + round * 100), oob->rank() + round);
      const std::vector<int> all = oob->gather(std::span<const int>(mine));
      for (size_t at = 0; at < all.size(); ++at) {
        if (all[at] != static_cast<int>(at / mine.size()) + round) return 3;
      }
    }
    oob->finish();
    std::printf("rank %d of %d by %s\n", oob->rank(), oob->size(), oob->name().c_str());
    return 0;
  } catch (const sweep::Failure& failure) {
    std::printf("%s\n", failure.text.c_str());
    return 4;
  }
}
