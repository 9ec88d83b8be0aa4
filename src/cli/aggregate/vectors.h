// SPDX-License-Identifier: Apache-2.0
// Made-up vectors of ranks, and what their sum is: for the load generator. Equal on every machine. Naming a kind of data fails with those
// that there are.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "federated/aggregate_messages.h"

namespace isthmus::cli {

enum class Draw : uint8_t {
  gaussian,   ///< independent on every rank
  same,       ///< Gaussian, equal on all ranks
  lognormal,  ///< independent, of either sign, some much larger than others
};
Result<Draw> parse_draw(std::string_view text);

struct Vectors {
  Draw draw = Draw::gaussian;
  uint64_t seed = 1;
  size_t count = 0;
  DataType type = DataType::float32;  ///< float32, float16 or bfloat16

  /// A rank's vector as elements of the type.
  [[nodiscard]] std::vector<std::byte> of_rank(uint32_t rank) const;
  /// The exact average of these ranks' vectors.
  [[nodiscard]] std::vector<double> average(const federated::RankSet& ranks) const;
};

/// Squared distance of elements times `factor` from the exact ones, over the squares of those.
double nmse(std::span<const std::byte> elements, DataType type, double factor, const std::vector<double>& exact);

}  // namespace isthmus::cli
