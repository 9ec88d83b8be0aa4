// SPDX-License-Identifier: Apache-2.0
// partition.h.
#include "federated/partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace isthmus::federated {
namespace {

double pairs_of(uint64_t count) { return static_cast<double>(count) * (static_cast<double>(count) - 1) / 2; }

template <typename Key>
double all_pairs(const std::map<Key, uint64_t>& counts) {
  double sum = 0;
  for (const auto& [key, count] : counts) sum += pairs_of(count);
  return sum;
}

/// State of the Hungarian method over `rows` <= `columns`; both are counted from 1, 0 is nobody.
struct Matching {
  std::vector<int64_t> row_price, column_price;
  std::vector<uint32_t> row_of;  ///< by column

  Matching(uint32_t rows, uint32_t columns) : row_price(rows + 1), column_price(columns + 1), row_of(columns + 1) {}

  /// Finds a column for `row` along the cheapest path of exchanges.
  template <typename Cost>
  void add(uint32_t row, const Cost& cost) {
    const auto columns = static_cast<uint32_t>(row_of.size());
    std::vector<int64_t> least(columns, std::numeric_limits<int64_t>::max());
    std::vector<uint32_t> from(columns);
    std::vector<bool> used(columns);
    row_of[0] = row;
    uint32_t at = 0;
    do {
      used[at] = true;
      const uint32_t its = row_of[at];
      int64_t delta = std::numeric_limits<int64_t>::max();
      uint32_t next = 0;
      for (uint32_t j = 1; j < columns; ++j) {
        if (used[j]) continue;
        const int64_t reduced = cost(its, j) - row_price[its] - column_price[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          from[j] = at;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (uint32_t j = 0; j < columns; ++j) {
        if (used[j]) {
          row_price[row_of[j]] += delta;
          column_price[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      at = next;
    } while (row_of[at] != 0);
    for (; at != 0; at = from[at]) row_of[at] = row_of[from[at]];
  }
};

}  // namespace

double adjusted_rand_index(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  std::map<uint32_t, uint64_t> in_a, in_b;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> in_both;
  for (size_t i = 0; i < a.size(); ++i) {
    ++in_a[a[i]];
    ++in_b[b[i]];
    ++in_both[{a[i], b[i]}];
  }
  const double pairs = pairs_of(a.size()), both = all_pairs(in_both);
  const double product = pairs > 0 ? all_pairs(in_a) * all_pairs(in_b) / pairs : 0;
  const double most = (all_pairs(in_a) + all_pairs(in_b)) / 2;
  return most == product ? 1 : (both - product) / (most - product);
}

std::vector<uint32_t> best_pairs(std::span<const int64_t> gains, uint32_t rows, uint32_t columns) {
  const bool turned = rows > columns;
  const uint32_t few = std::min(rows, columns), many = std::max(rows, columns);
  Matching matching(few, many);
  const auto cost = [&](uint32_t row, uint32_t column) {
    const size_t r = (turned ? column : row) - 1, c = (turned ? row : column) - 1;
    return -gains[r * columns + c];
  };
  for (uint32_t row = 1; row <= few; ++row) matching.add(row, cost);
  std::vector<uint32_t> result(rows, kNoCluster);
  for (uint32_t column = 1; column <= many; ++column) {
    const uint32_t row = matching.row_of[column];
    if (row == 0) continue;
    result[(turned ? column : row) - 1] = (turned ? row : column) - 1;
  }
  return result;
}

std::vector<uint32_t> stable_names(std::span<const uint32_t> before, uint32_t k_old, std::span<const uint32_t> after, uint32_t k_new) {
  std::vector<int64_t> shared(size_t{k_new} * k_old);
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i] != kNoCluster) ++shared[size_t{after[i]} * k_old + before[i]];
  }
  std::vector<uint32_t> names = k_old == 0 ? std::vector<uint32_t>(k_new, kNoCluster) : best_pairs(shared, k_new, k_old);
  std::vector<bool> taken(k_new);
  for (uint32_t& name : names) {
    if (name >= k_new) name = kNoCluster;
    if (name != kNoCluster) taken[name] = true;
  }
  uint32_t free = 0;
  for (uint32_t& name : names) {
    if (name != kNoCluster) continue;
    while (taken[free]) ++free;
    name = free++;
  }
  return names;
}

std::vector<double> mixing_matrix(std::span<const uint32_t> before, uint32_t k_old, std::span<const uint32_t> after, uint32_t k_new,
                                  std::span<const uint64_t> weights) {
  std::vector<uint64_t> shared(size_t{k_new} * k_old), overall(k_old);
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i] == kNoCluster) continue;
    overall[before[i]] += weights[i];
    if (after[i] != kNoCluster) shared[size_t{after[i]} * k_old + before[i]] += weights[i];
  }
  std::vector<double> mixing(shared.size());
  const auto write = [&](uint32_t row, std::span<const uint64_t> parts) {
    uint64_t sum = 0;
    for (const uint64_t part : parts) sum += part;
    for (uint32_t l = 0; l < k_old; ++l) {
      mixing[size_t{row} * k_old + l] = sum > 0 ? static_cast<double>(parts[l]) / static_cast<double>(sum) : 1.0 / k_old;
    }
  };
  for (uint32_t row = 0; row < k_new; ++row) {
    const std::span<const uint64_t> parts = std::span(shared).subspan(size_t{row} * k_old, k_old);
    write(row, std::any_of(parts.begin(), parts.end(), [](uint64_t part) { return part > 0; }) ? parts : overall);
  }
  return mixing;
}

std::vector<float> mix_models(std::span<const double> mixing, uint32_t k_old, std::span<const float> models) {
  const size_t k_new = mixing.size() / k_old, parameters = models.size() / k_old;
  std::vector<float> mixed(k_new * parameters);
  std::vector<double> sums(parameters);
  for (size_t row = 0; row < k_new; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (uint32_t l = 0; l < k_old; ++l) {
      const double share = mixing[row * k_old + l];
      if (share == 0) continue;
      for (size_t i = 0; i < parameters; ++i) sums[i] += share * double{models[l * parameters + i]};
    }
    std::transform(sums.begin(), sums.end(), mixed.begin() + static_cast<std::ptrdiff_t>(row * parameters),
                   [](double sum) { return static_cast<float>(sum); });
  }
  return mixed;
}

}  // namespace isthmus::federated
