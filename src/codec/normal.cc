// SPDX-License-Identifier: Apache-2.0
// The normal distribution by libm's erfc. Called by thc.cc and tests; nothing can fail.
#include "codec/normal.h"

#include <cmath>

namespace isthmus::codec {

double normal_density(double x) { return std::exp(-0.5 * x * x) * 0.398942280401432677939946059934; }

double normal_tail(double x) { return 0.5 * std::erfc(x * 0.707106781186547524400844362105); }

double inverse_normal_tail(double p) {
  if (p > 0.5) return -inverse_normal_tail(1 - p);
  // The logarithm of the tail is concave and smooth, so Newton's method on it converges from anywhere: d/dx log Q = -phi/Q.
  double x = std::sqrt(-2 * std::log(2 * p));
  for (int step = 0; step < 50; ++step) {
    const double tail = normal_tail(x);
    const double change = (std::log(tail) - std::log(p)) * tail / normal_density(x);
    x += change;
    if (std::abs(change) <= 1e-15 * (1 + x)) break;
  }
  return x;
}

}  // namespace isthmus::codec
