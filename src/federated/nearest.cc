// SPDX-License-Identifier: Apache-2.0
// nearest.h. Differences, not products: x.c would cost a third less, but loses small distances of large vectors. Two rows at a time meet
// up to sixteen centres in registers. Vectors are the compilers' own (both know them); lanes never mix, so results do not depend on width.
#include "federated/nearest.h"

#include <algorithm>
#include <limits>

namespace isthmus::federated {
namespace {

using Lanes = float __attribute__((vector_size(CentreTable::kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

constexpr uint32_t kBlock = CentreTable::kLanes * CentreTable::kWide;
constexpr size_t kRows = 2;

template <Metric metric>
Lanes far_of(Lanes difference) {
  if constexpr (metric == Metric::l2) return difference * difference;
  return difference < 0 ? -difference : difference;
}

Lanes all(float value) { return Lanes{value, value, value, value}; }

}  // namespace

CentreTable::CentreTable(Metric metric, const Points& centres)
    : metric_(metric), centres_(static_cast<uint32_t>(centres.size())), dims_(centres.dims) {
  const uint32_t blocks = (centres_ + kBlock - 1) / kBlock;
  table_.resize(size_t{blocks} * kBlock * dims_);
  for (uint32_t centre = 0; centre < centres_; ++centre) {
    float* to = table_.data() + size_t{centre / kBlock} * kBlock * dims_ + centre % kBlock;
    for (uint32_t j = 0; j < dims_; ++j) to[size_t{j} * kBlock] = centres[centre][j];
  }
}

template <Metric metric, uint32_t wide>
void CentreTable::find_in_block(const Points& points, uint32_t block, std::span<uint32_t> index, std::span<float> far) const {
  const float* table = table_.data() + size_t{block} * kBlock * dims_;
  const uint32_t first = block * kBlock;
  const uint32_t count = std::min(kBlock, centres_ - first);
  for (size_t row = 0; row < points.size(); row += kRows) {
    const size_t rows = std::min(kRows, points.size() - row);
    const float* x[kRows] = {points[row].data(), points[row + rows - 1].data()};
    Lanes sums[kRows][wide] = {};
    for (uint32_t j = 0; j < dims_; ++j) {
      const auto* centre = reinterpret_cast<const Lanes*>(table + size_t{j} * kBlock);
      const Lanes a = all(x[0][j]), b = all(x[1][j]);
      for (uint32_t v = 0; v < wide; ++v) {
        sums[0][v] += far_of<metric>(a - centre[v]);
        sums[1][v] += far_of<metric>(b - centre[v]);
      }
    }
    for (size_t r = 0; r < rows; ++r) {
      for (uint32_t k = 0; k < count; ++k) {
        const float distance = sums[r][k / kLanes][k % kLanes];
        if (first + k > 0 && !(distance < far[row + r])) continue;
        far[row + r] = distance;
        index[row + r] = first + k;
      }
    }
  }
}

template <Metric metric>
void CentreTable::find_by(const Points& points, std::span<uint32_t> index, std::span<float> far) const {
  for (uint32_t block = 0; block * kBlock < centres_; ++block) {
    switch ((std::min(kBlock, centres_ - block * kBlock) + kLanes - 1) / kLanes) {
      case 1:
        find_in_block<metric, 1>(points, block, index, far);
        break;
      case 2:
        find_in_block<metric, 2>(points, block, index, far);
        break;
      case 3:
        find_in_block<metric, 3>(points, block, index, far);
        break;
      default:
        find_in_block<metric, kWide>(points, block, index, far);
    }
  }
}

void CentreTable::find(const Points& points, std::span<uint32_t> index, std::span<float> far) const {
  if (metric_ == Metric::l1) {
    find_by<Metric::l1>(points, index, far);
  } else {
    find_by<Metric::l2>(points, index, far);
  }
}

uint32_t nearest(Metric metric, const Points& centres, std::span<const float> row) {
  uint32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t k = 0; k < centres.size(); ++k) {
    const double far = distance(metric, centres[k], row);
    if (far >= least) continue;
    least = far;
    best = k;
  }
  return best;
}

}  // namespace isthmus::federated
