// SPDX-License-Identifier: Apache-2.0
// What numbers on the command line must be. The parser's own checks let NaN pass, which is neither below nor above anything, and its
// reading of unsigned numbers makes others of those that are negative or too large. Used by all commands; refusals say what is accepted.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace isthmus::cli {

/// A number from `least` to `most`, both included; not NaN.
CLI::Validator finite_in(double least, double most);
/// Decimal digits, from 0 to `most`. For Option::transform: what the parser then reads has no leading zeros, which it takes for octal.
CLI::Validator whole_up_to(uint64_t most = std::numeric_limits<uint64_t>::max());

}  // namespace isthmus::cli
