// SPDX-License-Identifier: Apache-2.0
// Test data and what must become of it. Every element follows from (seed, index, rank) alone, so any process can say what any
// rank contributed and what the result is, without communication and without the library. Numbers are chosen so that the result
// does not depend on the order of additions or multiplications: small integers times a power of two whose partial sums fit the
// type's mantissa, and powers of two with at most one other factor for products. So results are compared exactly, except a
// floating-point average (2 units in the last place). What goes through a codec comes back changed; for that there are Gaussian
// elements, as gradients are, and the squared deviation from the exact result. Called by the workers for verification; cannot fail.
#pragma once

#include <cstddef>
#include <cstdint>

#include "element.h"

namespace sweep {

/// Which numbers: those above, or independent ones of mean 0 and variance 1 (floats, sums and averages only).
enum class Data { usual, gaussian };

/// A data set: the contributions of `ranks` ranks to one call. With Op::none elements are bit patterns that follow from the index alone.
struct Recipe {
  ncclDataType_t type = ncclFloat32;
  Op op = Op::sum;
  uint64_t seed = 0;
  int ranks = 1;
  Data data = Data::usual;
};

/// PreMulSum's scalar of a rank: 1 for even ranks, 2 for odd ones.
constexpr int premul_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }
/// The same as an element of `type`, at `out` (bytes_of(type) bytes).
void encode_premul_scalar(ncclDataType_t type, int rank, void* out);

/// out <- elements [first, first + count) of `rank`'s contribution.
void generate(const Recipe& recipe, int rank, size_t first, size_t count, void* out);

/// How many of the `count` elements at `actual` are not what generate() writes there.
size_t count_changed(const Recipe& recipe, int rank, size_t first, size_t count, const void* actual);

/// How many of the `count` elements at `actual` are not what combining all ranks' contributions gives from index `first` on
/// (Op::none: not the data from index `first` on).
size_t count_wrong(const Recipe& recipe, size_t first, size_t count, const void* actual);

/// How far a result is from the exact one, which is computed in double precision: sums of squares.
struct Deviation {
  double error = 0, energy = 0;
  /// Squared error over squared exact result; 0 of nothing.
  [[nodiscard]] double nmse() const;
};
/// Of the `count` elements at `actual` from what combining all ranks' contributions gives from index `first` on. Floats only; nothing
/// for other types.
Deviation deviation(const Recipe& recipe, size_t first, size_t count, const void* actual);

}  // namespace sweep
