// SPDX-License-Identifier: Apache-2.0
// defences.h.
#include "federated/defences.h"

#include <algorithm>
#include <cmath>

#include "federated/kmeans.h"

namespace isthmus::federated {

std::vector<float> trimmed_means(const Points& points, std::span<const uint32_t> assignment, const Points& centres, double trim) {
  std::vector<std::vector<size_t>> rows(centres.size());
  for (size_t row = 0; row < points.size(); ++row) rows[assignment[row]].push_back(row);
  std::vector<float> means(centres.values.begin(), centres.values.end()), column;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (rows[k].empty()) continue;
    const auto cut = std::min(static_cast<size_t>(trim * static_cast<double>(rows[k].size())), (rows[k].size() - 1) / 2);
    for (uint32_t j = 0; j < points.dims; ++j) {
      column.clear();
      for (const size_t row : rows[k]) column.push_back(points[row][j]);
      std::sort(column.begin(), column.end());
      double sum = 0;
      for (size_t i = cut; i < column.size() - cut; ++i) sum += double{column[i]};
      means[k * points.dims + j] = static_cast<float>(sum / static_cast<double>(column.size() - 2 * cut));
    }
  }
  return means;
}

std::vector<float> clipped_means(Metric metric, const Points& points, std::span<const uint32_t> assignment, const Points& centres,
                                 double bound) {
  std::vector<float> drawn(points.values.begin(), points.values.end());
  std::vector<uint64_t> sizes(centres.size());
  for (size_t row = 0; row < points.size(); ++row) {
    ++sizes[assignment[row]];
    const std::span<const float> centre = centres[assignment[row]];
    const double far = distance(metric, points[row], centre);
    if (far <= bound) continue;
    for (uint32_t j = 0; j < points.dims; ++j) {
      drawn[row * points.dims + j] = static_cast<float>(double{centre[j]} + (double{points[row][j]} - double{centre[j]}) * bound / far);
    }
  }
  std::vector<float> means = means_of({.values = drawn, .dims = points.dims}, assignment, static_cast<uint32_t>(centres.size()));
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) std::copy(centres[k].begin(), centres[k].end(), means.begin() + static_cast<std::ptrdiff_t>(k * points.dims));
  }
  return means;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * double{b[i]};
    of_a += double{a[i]} * double{a[i]};
    of_b += double{b[i]} * double{b[i]};
  }
  return of_a > 0 && of_b > 0 ? product / std::sqrt(of_a * of_b) : 0;
}

bool Moves::allow(const MoveCap& cap, uint64_t round) {
  if (cap.moves == 0) return true;
  const uint64_t now = round / std::max(cap.window_rounds, 1U);
  if (now != window) *this = {.window = now, .count = 0};
  if (count >= cap.moves) return false;
  ++count;
  return true;
}

void Conduct::observe(const QuarantineRules& rules, double cosine) {
  disagreements = cosine < rules.min_cosine ? disagreements + 1 : 0;
  if (rules.rounds > 0 && disagreements >= rules.rounds) quarantined = true;
}

}  // namespace isthmus::federated
