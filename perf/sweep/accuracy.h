// SPDX-License-Identifier: Apache-2.0
// Whether what came through a codec is as good as it ought to be: an error within what the codec promises, the same bits on every
// rank. Pure functions of what the workers measured; nothing here can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "element.h"

namespace sweep {

/// What a result came from.
struct Origin {
  std::string_view codec;  ///< as the library names it: "thc:g=31"
  double predicted = 0;    ///< nmse that the library expects for elements that are independent between ranks; NaN if it does not say
  ncclDataType_t type = ncclFloat32;
  Op op = Op::sum;
  int ranks = 1;
  uint64_t elements = 0;  ///< that the error was taken over
};

/// The largest nmse (squared error over squared exact result) that is no mistake; infinite where nothing can be said: for codecs
/// unknown here that predict nothing, and for few elements, whose error varies too much.
double nmse_bound(const Origin& origin);

/// What a verified call came to, over all ranks.
struct Outcome {
  double nmse = 0, bound = 0;
  bool alike = true;   ///< every rank that must have the same result has the same bits
  double touched = 0;  ///< elements of the input, or bytes behind the output, that the call changed
};

/// What is wrong with it, a sentence each.
std::vector<std::string> faults(const Outcome& outcome);

/// A number that other bytes hardly have too; a double holds it exactly.
double fingerprint(std::span<const std::byte> bytes);

}  // namespace sweep
