// SPDX-License-Identifier: Apache-2.0
// Optimal quantisation tables by dynamic programming, and the errors they leave. Called by thc.cc and tests; nothing can fail.
#include <cmath>
#include <limits>
#include <vector>

#include "codec/normal.h"
#include "codec/thc.h"

namespace isthmus::codec {
namespace {

/// The error of rounding N(0,1) between any two of the grid's points t (2i/g - 1), from closed forms at the points.
class Costs {
 public:
  Costs(uint32_t granularity, double t) {
    for (uint32_t i = 0; i <= granularity; ++i) {
      const double x = t * (2.0 * i / granularity - 1);
      points_.push_back({x, normal_tail(x), normal_density(x)});
    }
  }
  /// Integral of (x - a)(b - x) phi(x) over [a, b].
  [[nodiscard]] double operator()(uint32_t from, uint32_t to) const {
    const Point &a = points_[from], &b = points_[to];
    const double mass = a.tail - b.tail;
    const double mean = a.density - b.density;
    const double square = mass + a.x * a.density - b.x * b.density;
    return (a.x + b.x) * mean - square - a.x * b.x * mass;
  }

 private:
  struct Point {
    double x, tail, density;
  };
  std::vector<Point> points_;
};

/// least[k][j]: the least error below point j with k intervals there; from[k][j]: where the last of them begins.
struct Search {
  std::vector<std::vector<double>> least;
  std::vector<std::vector<uint32_t>> from;

  Search(const Costs& costs, uint32_t intervals, uint32_t granularity) {
    const double none = std::numeric_limits<double>::infinity();
    least.assign(intervals + 1, std::vector<double>(granularity + 1, none));
    from.assign(intervals + 1, std::vector<uint32_t>(granularity + 1, 0));
    least[0][0] = 0;
    for (uint32_t k = 1; k <= intervals; ++k) {
      for (uint32_t j = k; j <= granularity; ++j) {
        for (uint32_t i = k - 1; i < j; ++i) {
          if (least[k - 1][i] == none) continue;
          const double error = least[k - 1][i] + costs(i, j);
          if (error < least[k][j]) {
            least[k][j] = error;
            from[k][j] = i;
          }
        }
      }
    }
  }
  /// Writes the points of the best way to `end` with `intervals` intervals to table[0..intervals].
  void trace(std::array<uint8_t, 256>& table, uint32_t intervals, uint32_t end) const {
    for (uint32_t k = intervals;; --k) {
      table[k] = static_cast<uint8_t>(end);
      if (k == 0) return;
      end = from[k][end];
    }
  }
};

}  // namespace

double clamp_error(double t) { return 2 * ((1 + t * t) * normal_tail(t) - t * normal_density(t)); }

double rounding_error(const uint8_t* table, uint32_t levels, uint32_t granularity, double t) {
  const Costs costs(granularity, t);
  double error = 0;
  for (uint32_t i = 0; i + 1 < levels; ++i) error += costs(table[i], table[i + 1]);
  return error;
}

std::array<uint8_t, 256> best_table(uint32_t levels, uint32_t granularity, double t, bool mirrored) {
  std::array<uint8_t, 256> table{};
  if (granularity == levels - 1) {
    for (uint32_t i = 0; i < levels; ++i) table[i] = static_cast<uint8_t>(i);
    return table;
  }
  const Costs costs(granularity, t);
  if (!mirrored) {
    Search(costs, levels - 1, granularity).trace(table, levels - 1, granularity);
    return table;
  }
  const uint32_t half = levels / 2;
  const Search search(costs, half - 1, granularity);
  uint32_t best = half - 1;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t j = half - 1; 2 * j < granularity; ++j) {  // the innermost level below zero; its mirror image is the next
    const double error = 2 * search.least[half - 1][j] + costs(j, granularity - j);
    if (error < least) {
      least = error;
      best = j;
    }
  }
  search.trace(table, half - 1, best);
  for (uint32_t i = 0; i < half; ++i) table[levels - 1 - i] = static_cast<uint8_t>(granularity - table[i]);
  return table;
}

double prescale_factor(double t, double ratio) {
  double c = 1;
  for (int step = 0; step < 200; ++step) {
    const double next = ratio <= 0 ? 1 : 1 / (1 - 2 * normal_tail(t / (c * ratio)));
    if (std::abs(next - c) < 1e-14) break;
    c = next;
  }
  return c;
}

}  // namespace isthmus::codec
