// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's parameters as values: configuration and its text form, quantisation tables, widths of sums, how a cell's
// elements form groups, expected errors. Read by plan/ and collectives/ (through codec.h), kernels/ and comm/. Making one fails with
// invalid_argument; everything after that is a pure function. docs/compression.md has the mathematics.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/float_types.h"
#include "base/status.h"
#include "codec/codec.h"

namespace isthmus::codec {

/// Elements that are packed together; every group is a power of two times this.
inline constexpr uint32_t kUnitElements = 64;
inline constexpr uint32_t kMinGroup = 1024, kMaxGroup = 8192;
inline constexpr uint32_t kMaxSumBits = 16;

/// Which elements of a cell are rotated together.
enum class ThcLayout : uint8_t {
  blocks,   ///< group k is the k-th run of B elements
  columns,  ///< the whole groups' elements are a matrix of B rows, and group k is its column k
};

/// The index-th group of a cell: whole ones, then the largest powers of two that the rest, padded to whole units, is made of.
ISTHMUS_HOST_DEVICE constexpr Piece thc_group(uint32_t group, ThcLayout layout, uint64_t elements, uint64_t index) {
  const uint64_t whole = elements / group;
  if (index < whole) {
    const bool columns = layout == ThcLayout::columns;
    return {index * group, columns ? index : index * group, columns ? whole : 1, group};
  }
  const uint64_t units = (elements % group + kUnitElements - 1) / kUnitElements;
  uint64_t skip = index - whole, first = whole * group;
  for (uint32_t size = group; size > kUnitElements; size /= 2) {
    if ((units & size / kUnitElements) == 0) continue;
    if (skip == 0) return {first, first, 1, size};
    first += size;
    --skip;
  }
  return {first, first, 1, kUnitElements};
}

/// What a user chooses. Every rank must choose the same.
struct ThcConfig {
  uint32_t bits = 4;         ///< bits of an index: 2, 3, 4 or 8
  uint32_t granularity = 0;  ///< the largest table value; 0: floor(255 / ranks), at least 2^bits - 1
  double overflow = 0;       ///< probability that a coordinate is clamped; 0: 1/512, or 1/32 with error feedback
  uint32_t group = 4096;     ///< elements rotated together, a power of two
  ThcLayout layout = ThcLayout::blocks;
  bool correlated = true;  ///< the ranks' dither is stratified, so that rounding errors of like values cancel
  bool prescale = true;    ///< senders make up for what clamping takes away; parse_thc: not with error feedback
  bool feedback = false;   ///< what was lost is added to the next call's input (the caller keeps it)

  friend bool operator==(const ThcConfig&, const ThcConfig&) = default;
};

/// "thc", or "thc:" and comma-separated b=, g=, p=, group=, layout=blocks|columns, dither=correlated|private, prescale=, ef=.
Result<ThcConfig> parse_thc(std::string_view text);
/// The shortest text that parse_thc reads as `config`.
std::string to_text(const ThcConfig& config);

/// How to find the greatest i with table[i] <= v by lookups in 16 bytes, for a table of at most 16 values.
struct ThcSearch {
  static constexpr uint32_t kMostSteps = 8;

  bool direct;     ///< by a lookup of all v: `low`, and from 16 on what `high` adds to `low` of 16 less
  int shift;       ///< else in cells of 1 << shift numbers: `low` has the i of a cell's first one
  uint32_t steps;  ///< the most that i grows in a cell; kMostSteps are held
  alignas(16) std::array<uint8_t, 16> low;
  alignas(16) std::array<uint8_t, 16> high;
  alignas(16) std::array<std::array<uint8_t, 16>, kMostSteps> last;  ///< for the n-th step in a cell: the last v before it, less 128
};

/// One configuration for one number of ranks, with everything that can be computed beforehand.
struct Thc {
  static constexpr uint32_t kPrescaleSteps = 256;

  ThcConfig config;  ///< with granularity and overflow filled in
  uint32_t ranks;
  double clamp;                    ///< t: rotated coordinates beyond +-t standard deviations are clamped
  double rounding_error;           ///< J(T): mean squared error of one rank's unbiased rounding of N(0,1)
  double clamp_error;              ///< C(t): mean squared error of clamping N(0,1)
  bool uniform;                    ///< table[i] == i
  std::array<uint8_t, 256> table;  ///< of 2^bits values from 0 to the granularity, mirrored: table[i] + table[last - i] == granularity
  std::array<uint8_t, 256> gap;    ///< table[i + 1] - table[i]; 1 after the last
  ThcSearch search;
  std::array<float, kPrescaleSteps + 1> prescale;  ///< the factor for own scale / common scale = i / kPrescaleSteps; all 1 if switched off
  uint64_t hash;                                   ///< equal on ranks that may add each other's encodings
  Codec codec;                                     ///< its `thc` is this object

  Thc() = default;
  Thc(const Thc&) = delete;  // codec.thc points here
  Thc& operator=(const Thc&) = delete;

  [[nodiscard]] uint32_t levels() const { return 1U << config.bits; }
  /// Bits of an element where `room` encodings may have been added: an index for one, a sum for more.
  [[nodiscard]] uint32_t width(uint32_t room) const;
  /// Encodings that may be added at all.
  [[nodiscard]] uint32_t max_summands() const { return ((1U << kMaxSumBits) - 1) / config.granularity; }
  /// Groups of a cell, and each of them (thc_group).
  [[nodiscard]] uint64_t groups(uint64_t elements) const;
  [[nodiscard]] Piece group(uint64_t elements, uint64_t index) const;
  /// Expected squared error of the average over that of the exact average, for Gaussian data: independent on every rank, or the same.
  [[nodiscard]] double predicted_nmse(bool same) const;
};

/// Fails where the configuration is out of range or the ranks' sum would need more than kMaxSumBits.
Result<std::unique_ptr<const Thc>> make_thc(const ThcConfig& config, uint32_t ranks);

/// Mean squared error of clamping N(0,1) to +-t.
double clamp_error(double t);
/// Mean squared error of rounding N(0,1), clamped to +-t, without bias to the levels t (2 table[i] / granularity - 1).
double rounding_error(const uint8_t* table, uint32_t levels, uint32_t granularity, double t);
/// The table of least rounding_error: among all, or among the mirrored ones.
std::array<uint8_t, 256> best_table(uint32_t levels, uint32_t granularity, double t, bool mirrored);
/// The factor c for which c E[z clamp(c z)] = E[z z] where z has `ratio` of the common standard deviation.
double prescale_factor(double t, double ratio);

}  // namespace isthmus::codec
