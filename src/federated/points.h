// SPDX-License-Identifier: Apache-2.0
// Representations in rows, and the distances between them. Used by everything that clusters. Pure; nothing here fails.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace isthmus::federated {

/// What is near: l1 for histograms (0 to 2), l2 for everything else; on unit vectors l2 orders as the cosine does.
enum class Metric : uint8_t { l1, l2 };

/// `size()` rows of `dims` numbers each, one after the other. The memory is somebody else's.
struct Points {
  std::span<const float> values;
  uint32_t dims = 0;

  [[nodiscard]] size_t size() const { return dims == 0 ? 0 : values.size() / dims; }
  std::span<const float> operator[](size_t row) const { return values.subspan(row * dims, dims); }
};

/// The distance of two rows of equal length, summed in double precision from the first element to the last.
inline double distance(Metric metric, std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += metric == Metric::l1 ? std::abs(difference) : difference * difference;
  }
  return metric == Metric::l1 ? sum : std::sqrt(sum);
}

}  // namespace isthmus::federated
