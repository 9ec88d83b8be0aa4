// SPDX-License-Identifier: Apache-2.0
// The standard normal distribution in double precision: density, upper tail and its inverse. Used by thc.cc and by tests that compare
// measured errors with analytic ones. Nothing here can fail.
#pragma once

namespace isthmus::codec {

double normal_density(double x);
/// P(X > x).
double normal_tail(double x);
/// The x with normal_tail(x) == p, to a few units in the last place. Requires 0 < p < 1.
double inverse_normal_tail(double p);

}  // namespace isthmus::codec
