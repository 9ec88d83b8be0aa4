// SPDX-License-Identifier: Apache-2.0
// Whether a set of rows is one cluster or several. Several centres always fit better than one, so what they gain is held against what they
// gain on rows of one normal cloud with the same mean and covariance (as Liu, Hayes, Nobel and Marron 2008 do for two parts, in logarithms
// as the gap statistic of Tibshirani, Walther and Hastie 2001). Looked at is only the space that the centres span: what scatters in all
// other directions tells nothing and would drown the rest. Used by the rule that chooses the number of clusters. Pure; nothing fails.
#pragma once

#include <cstdint>

#include "federated/kmeans.h"

namespace isthmus::federated {

struct SplitRules {
  KmeansRules kmeans;
  uint32_t max_parts = 4;
  uint32_t min_rows = 1;       ///< of every part
  uint32_t clouds = 40;        ///< of the bootstrap
  double significance = 4.25;  ///< standard deviations by which the parts must do better than they do on a cloud
  uint32_t max_rows = 240;     ///< of which a sample is looked at where there are more
};

struct Split {
  Clustering parts;  ///< of all rows; k() is 0 where nothing can be split
  double gain = 0;   ///< mean over clouds of the index, less the rows' own (index: logarithm of inertia within parts over that of all)
  double score = 0;  ///< gain over the standard deviation on clouds

  [[nodiscard]] bool significant(const SplitRules& rules) const { return parts.k() > 1 && score > rules.significance; }
};

/// The number of parts with the largest gain, among the significant ones if there are any. Parts of fewer than five rows on average are not
/// looked for: chance makes too many of them. In squared l2 whatever the metric.
Split best_split(const Points& points, const SplitRules& rules);

}  // namespace isthmus::federated
