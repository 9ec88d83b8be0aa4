// SPDX-License-Identifier: Apache-2.0
// The element types and operators of the sweeps, and how an element's bits mean a number. Used by the generator and the options.
// Written apart from the library's own conversions on purpose: a shared mistake would verify itself. Cannot fail.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "nccl.h"

namespace sweep {

/// What the elements of a call undergo. `none`: they are only moved. `mulsum`: summed, each rank's multiplied by a scalar first.
enum class Op { none, sum, prod, max, min, avg, mulsum };
inline constexpr Op kOps[] = {Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::mulsum};

/// nccl-tests' spellings.
std::string_view name_of(Op op);
std::string_view name_of(ncclDataType_t type);
std::optional<Op> op_named(std::string_view name);
std::optional<ncclDataType_t> type_named(std::string_view name);

size_t bytes_of(ncclDataType_t type);

/// A binary floating-point type of at most 16 bits: sign, exponent, mantissa.
template <int kExponentBits, int kMantissaBits, bool kHasInfinity = true>
struct SmallFloat {
  using Bits = std::conditional_t<(kExponentBits + kMantissaBits > 7), uint16_t, uint8_t>;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint64_t kMaxExponent = (1U << kExponentBits) - 1;
  static constexpr uint64_t kMantissaMask = (1U << kMantissaBits) - 1;

  /// The bits of a number that the type holds exactly as a normal number, or of zero.
  static Bits encode(double number) {
    const auto wide = std::bit_cast<uint64_t>(number);
    const uint64_t sign = wide >> 63 << (kExponentBits + kMantissaBits);
    if ((wide << 1) == 0) return static_cast<Bits>(sign);
    const uint64_t exponent = ((wide >> 52) & 0x7ff) - 1023 + kBias;
    return static_cast<Bits>(sign | exponent << kMantissaBits | ((wide >> (52 - kMantissaBits)) & kMantissaMask));
  }

  static double decode(Bits bits) {
    const uint64_t sign = static_cast<uint64_t>(bits >> (kExponentBits + kMantissaBits)) << 63;
    const uint64_t exponent = (bits >> kMantissaBits) & kMaxExponent;
    const uint64_t mantissa = bits & kMantissaMask;
    if (exponent == 0) {
      const auto unit = std::bit_cast<double>(uint64_t{1023 + 1 - kBias - kMantissaBits} << 52);  // of a subnormal's mantissa
      return static_cast<double>(mantissa) * (sign != 0 ? -unit : unit);
    }
    const bool special = kHasInfinity ? exponent == kMaxExponent : (exponent == kMaxExponent && mantissa == kMantissaMask);
    const uint64_t wide_exponent = special ? 0x7ff : exponent - kBias + 1023;
    return std::bit_cast<double>(sign | wide_exponent << 52 | mantissa << (52 - kMantissaBits));
  }
};

using Half = SmallFloat<5, 10>;
using Bfloat16 = SmallFloat<8, 7>;
using Float8e4m3 = SmallFloat<4, 3, false>;
using Float8e5m2 = SmallFloat<5, 2>;

/// float and double, in the same terms.
struct Single {
  using Bits = float;
  static float encode(double number) { return static_cast<float>(number); }
  static double decode(float bits) { return bits; }
};
struct Double {
  using Bits = double;
  static double encode(double number) { return number; }
  static double decode(double bits) { return bits; }
};

}  // namespace sweep
