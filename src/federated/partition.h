// SPDX-License-Identifier: Apache-2.0
// Two partitions of the same clients against each other: how alike they are, which clusters of one are which of the other, and how the
// models of the old make those of the new. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::federated {

inline constexpr uint32_t kNoCluster = UINT32_MAX;  ///< of clients that had none

/// The adjusted Rand index (Hubert and Arabie 1985): 1 for equal partitions, about 0 for independent ones.
double adjusted_rand_index(std::span<const uint32_t> a, std::span<const uint32_t> b);

/// The columns of a rows x columns matrix that rows are paired with so that the sum of gains is largest (Kuhn's Hungarian method,
/// cubic); kNoCluster for rows that get none, where there are more rows than columns.
std::vector<uint32_t> best_pairs(std::span<const int64_t> gains, uint32_t rows, uint32_t columns);

/// New names for the k_new clusters of `after`, 0 .. k_new - 1: each takes the name of the cluster of `before` that it shares most clients
/// with, over all clusters, as far as that is below k_new; the others take what is left, in order. By cluster of `after`.
std::vector<uint32_t> stable_names(std::span<const uint32_t> before, uint32_t k_old, std::span<const uint32_t> after, uint32_t k_new);

/// How much of each old model is in each new one: k_new rows of k_old shares that sum to 1, weighed by `weights` (samples; summed exactly
/// up to 2^64). A new cluster without anybody who had a model takes all old models by their weights overall. Requires k_old > 0.
std::vector<double> mixing_matrix(std::span<const uint32_t> before, uint32_t k_old, std::span<const uint32_t> after, uint32_t k_new,
                                  std::span<const uint64_t> weights);

/// models: k_old rows of `parameters` numbers. The k_new mixed ones, summed in double precision in the order of the old models.
std::vector<float> mix_models(std::span<const double> mixing, uint32_t k_old, std::span<const float> models);

}  // namespace isthmus::federated
