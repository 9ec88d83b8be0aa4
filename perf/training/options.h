// SPDX-License-Identifier: Apache-2.0
// The command line of training_check. Parsed once by main(); unknown options and values that make no sense are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace training {

struct Options {
  std::vector<std::string> codecs = {"none"};  ///< trained with one after the other, each from the beginning
  uint64_t seed = 1;                           ///< of the task, the first parameters and the mini-batches
  uint64_t steps = 140;
  uint64_t batch = 32;          ///< examples of a step on each rank
  double learning_rate = 0.05;  ///< of the first step; it falls to 0 in a straight line
  double momentum = 0.9;
  uint64_t report_every = 10;
  uint64_t examples = 131072;  ///< of the training set, over all ranks
  uint64_t held_out = 4096;
  std::vector<int> hidden = {512, 416};  ///< widths of the hidden layers
  bool inject_wrong = false;
};

/// What parsing came to: options, or a text to print and a code to exit with.
struct Parsed {
  std::optional<Options> options;
  std::string text;
  int exit_code = 0;
};

inline constexpr int kExitUsage = 2;

/// --help exits with 0, a wrong command line with 2.
Parsed parse_options(int argc, const char* const* argv);

}  // namespace training
