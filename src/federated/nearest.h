// SPDX-License-Identifier: Apache-2.0
// Which centre is nearest to each of many rows: the inner loop of clustering and of migration. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/points.h"

namespace isthmus::federated {

/// Centres as the inner loop wants them: kLanes of them side by side, dimension by dimension.
class CentreTable {
 public:
  static constexpr uint32_t kLanes = 4;  ///< of float32 in a vector register that every CPU has
  static constexpr uint32_t kWide = 4;   ///< vectors at once: 16 centres

  /// Requires at least one centre.
  CentreTable(Metric metric, const Points& centres);

  /// For each row of `points`: the nearest centre's number, the lowest of equals, and how far it is (l2: squared), in float32. `index` and
  /// `far` have room for all rows. Sums run over the dimensions in order, so every row's result is the same wherever it stands.
  void find(const Points& points, std::span<uint32_t> index, std::span<float> far) const;

 private:
  template <Metric metric, uint32_t wide>
  void find_in_block(const Points& points, uint32_t block, std::span<uint32_t> index, std::span<float> far) const;
  template <Metric metric>
  void find_by(const Points& points, std::span<uint32_t> index, std::span<float> far) const;

  Metric metric_;
  uint32_t centres_, dims_;
  std::vector<float> table_;  ///< [block of kWide * kLanes][dimension][centre of the block]
};

/// The nearest centre of one row, in double precision; the lowest of equals. Requires at least one centre.
uint32_t nearest(Metric metric, const Points& centres, std::span<const float> row);

}  // namespace isthmus::federated
