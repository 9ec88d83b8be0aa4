// SPDX-License-Identifier: Apache-2.0
// Test data and expected results (see generator.h). One template per family, integers and floats; a switch picks the type.
#include "generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace sweep {
namespace {

__extension__ using Wide = unsigned __int128;

/// 64 well-mixed bits (the finaliser of SplitMix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A rank's own bits for the element whose bits are `element`.
uint64_t mix(uint64_t element, int rank) {
  uint64_t x = (element ^ (static_cast<uint64_t>(rank + 1) * 0xd1342543de82ef95)) * 0xaf251af3b0f025b5;
  x = (x ^ (x >> 32)) * 0xb564ef22ec7aece5;
  return x ^ (x >> 32);
}

/// Uniform in [0, bound).
uint64_t below(uint64_t bits, uint64_t bound) { return static_cast<uint64_t>((static_cast<Wide>(bits) * bound) >> 64); }

/// There are this many different elements (a prime, so that no power-of-two offset is a multiple). Longer buffers repeat them, each
/// repetition starting kTurn further on, so that data at a wrong offset is wrong data whatever the offset.
constexpr size_t kPeriod = 131071;
constexpr size_t kTurn = 50021;

/// The bits of the element at a position below kPeriod.
uint64_t element_bits(const Recipe& recipe, size_t position) { return mix(recipe.seed * 0x2545f4914f6cdd1d + position); }

/// Calls visit(offset, position, length) for indices [first, first + count) in pieces whose positions are consecutive.
template <typename Visit>
void for_each_piece(size_t first, size_t count, Visit visit) {
  for (size_t offset = 0; offset < count;) {
    const size_t index = first + offset;
    const size_t position = (index % kPeriod + index / kPeriod % kPeriod * kTurn) % kPeriod;
    const size_t length = std::min({count - offset, kPeriod - index % kPeriod, kPeriod - position});
    visit(offset, position, length);
    offset += length;
  }
}

// --- elements that are only moved: any bits --------------------------------------------------------------------------------------

template <typename T>
struct Patterns {
  using Bits = T;
  using Result = T;
  explicit Patterns(const Recipe&) {}
  T contribution(uint64_t element, int) const { return static_cast<T>(element >> 9); }
  T result(uint64_t element) const { return contribution(element, 0); }
  bool matches(T actual, T expected) const { return actual == expected; }
  static T scalar(int value) { return static_cast<T>(value); }
};

// --- integers: arithmetic modulo 2^bits gives the same result in any order -------------------------------------------------------

template <typename T>
struct Integers {
  using Bits = T;
  using Result = T;
  explicit Integers(const Recipe& recipe) : recipe_(recipe) {}

  T contribution(uint64_t element, int rank) const {
    const uint64_t bits = mix(element, rank) >> 7;
    return static_cast<T>(recipe_.op == Op::prod ? bits | 1 : bits);  // even factors would soon leave nothing but zeros
  }

  T result(uint64_t element) const {
    T value = scaled(contribution(element, 0), 0);
    for (int rank = 1; rank < recipe_.ranks; ++rank) value = combine(value, scaled(contribution(element, rank), rank));
    return recipe_.op == Op::avg ? average(value) : value;
  }

  bool matches(T actual, T expected) const { return actual == expected; }
  static T scalar(int value) { return static_cast<T>(value); }

 private:
  T scaled(T value, int rank) const {
    if (recipe_.op != Op::mulsum) return value;
    return static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(premul_scalar(rank)));
  }
  T combine(T a, T b) const {
    if (recipe_.op == Op::max) return std::max(a, b);
    if (recipe_.op == Op::min) return std::min(a, b);
    if (recipe_.op == Op::prod) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  /// The wrapped sum divided by the number of ranks, truncated toward zero.
  T average(T sum) const {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(sum) / recipe_.ranks);
    return static_cast<T>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(recipe_.ranks));
  }

  Recipe recipe_;
};

// --- floats: every partial result is exactly representable ----------------------------------------------------------------------

/// What a type holds exactly: integers up to 2^significant_bits, products of `factors` times 2 or 1/2 and one 1.5.
struct Exact {
  int significant_bits;
  uint64_t factors;
  int smallest_exponent;  ///< of a normal number
};
template <typename Format>
constexpr Exact kExact = {};
template <>
constexpr Exact kExact<Float8e4m3> = {4, 5, -6};
template <>
constexpr Exact kExact<Float8e5m2> = {3, 12, -14};
template <>
constexpr Exact kExact<Half> = {11, 12, -14};
template <>
constexpr Exact kExact<Bfloat16> = {8, 100, -126};
template <>
constexpr Exact kExact<Single> = {24, 100, -126};
template <>
constexpr Exact kExact<Double> = {53, 900, -1022};

/// The results that are right.
struct Range {
  double low, high;
};

template <typename Format>
struct Floats {
  using Type = Format;
  using Bits = typename Format::Bits;
  using Result = Range;

  explicit Floats(const Recipe& recipe) : recipe_(recipe) {
    const uint64_t budget = uint64_t{1} << kExact<Format>.significant_bits;  // the largest sum of magnitudes that stays exact
    const auto ranks = static_cast<uint64_t>(recipe.ranks);
    const uint64_t heaviest = recipe.op == Op::mulsum ? 2 : 1;
    switch (recipe.op) {
      case Op::prod:
        active_ = std::min(ranks, kExact<Format>.factors);
        break;
      case Op::max:
      case Op::min:
        active_ = ranks;
        largest_ = budget - 1;
        break;
      default:
        active_ = std::min(ranks, budget / heaviest);
        largest_ = budget / (heaviest * active_);
    }
  }

  Bits contribution(uint64_t element, int rank) const { return Format::encode(number(element, rank)); }

  /// What combining all contributions gives.
  double exact(uint64_t element) const {
    double value = scaled(number(element, 0), 0);
    for (int rank = 1; rank < recipe_.ranks; ++rank) value = combine(value, scaled(number(element, rank), rank));
    return recipe_.op == Op::avg ? value / recipe_.ranks : value;
  }

  Range result(uint64_t element) const {
    const double value = exact(element);
    if (recipe_.op != Op::avg || value == 0) return {value, value};
    // The one division rounds, in whatever width it was made; two units in the last place are granted.
    const int exponent = std::max(std::ilogb(value), kExact<Format>.smallest_exponent);
    const double tolerance = 2 * std::ldexp(1.0, exponent - (kExact<Format>.significant_bits - 1));
    return {value - tolerance, value + tolerance};
  }

  bool matches(Bits actual, const Range& expected) const {
    const double number = Format::decode(actual);
    return expected.low <= number && number <= expected.high;
  }
  static Bits scalar(int value) { return Format::encode(value); }

 private:
  double number(uint64_t element, int rank) const {
    const uint64_t bits = mix(element, rank);
    if (recipe_.data == Data::gaussian) return gaussian(bits);
    if (recipe_.op == Op::prod) return factor(element, rank, bits);
    const uint64_t choice = is_active(element, rank) ? below(bits, 2 * largest_ + 1) : largest_;
    return static_cast<double>(static_cast<int64_t>(choice - largest_)) * kScales[element % 8];
  }

  /// Of the Gaussian distribution (Box-Muller), cut down to what the type holds as a normal number.
  static double gaussian(uint64_t bits) {
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 0.5) * 0x1p-32));
    const double number = radius * std::cos(2 * M_PI * 0x1p-32 * static_cast<double>(bits & 0xffffffff));
    const bool normal = std::abs(number) >= std::ldexp(1.0, kExact<Format>.smallest_exponent);
    return normal ? Format::decode(Format::encode(number)) : 0;
  }

  /// +-1, +-2 or +-1/2; one rank's carries a factor of 1.5 so that mantissas are multiplied too.
  double factor(uint64_t element, int rank, uint64_t bits) const {
    static constexpr double kFactors[] = {0.5, 1, 2, 1};
    double value = is_active(element, rank) ? kFactors[(bits >> 33) % 4] : 1;
    if (below(element, static_cast<uint64_t>(recipe_.ranks)) == static_cast<uint64_t>(rank)) value *= 1.5;
    return (bits >> 40) % 2 == 0 ? value : -value;
  }

  /// With more ranks than the type can combine exactly only some, others for each element, contribute more than nothing.
  bool is_active(uint64_t element, int rank) const {
    const auto ranks = static_cast<uint64_t>(recipe_.ranks);
    return active_ == ranks || ((element >> 20) + static_cast<uint64_t>(rank)) % ranks < active_;
  }

  double scaled(double value, int rank) const { return recipe_.op == Op::mulsum ? value * premul_scalar(rank) : value; }
  double combine(double a, double b) const {
    if (recipe_.op == Op::max) return std::max(a, b);
    if (recipe_.op == Op::min) return std::min(a, b);
    return recipe_.op == Op::prod ? a * b : a + b;
  }

  static constexpr double kScales[8] = {0.125, 0.25, 0.5, 1, 2, 4, 8, 1};
  Recipe recipe_;
  uint64_t active_ = 1;   ///< ranks that contribute anything but the neutral element
  uint64_t largest_ = 0;  ///< sums: magnitude of the integers
};

/// Calls `visit` with the family of the recipe's type and op.
template <typename Visit>
auto with_family(const Recipe& recipe, Visit visit) {
  if (recipe.op == Op::none) {
    switch (bytes_of(recipe.type)) {
      case 1:
        return visit(Patterns<uint8_t>(recipe));
      case 2:
        return visit(Patterns<uint16_t>(recipe));
      case 4:
        return visit(Patterns<uint32_t>(recipe));
      default:
        return visit(Patterns<uint64_t>(recipe));
    }
  }
  switch (recipe.type) {
    case ncclInt8:
      return visit(Integers<int8_t>(recipe));
    case ncclUint8:
      return visit(Integers<uint8_t>(recipe));
    case ncclInt32:
      return visit(Integers<int32_t>(recipe));
    case ncclUint32:
      return visit(Integers<uint32_t>(recipe));
    case ncclInt64:
      return visit(Integers<int64_t>(recipe));
    case ncclUint64:
      return visit(Integers<uint64_t>(recipe));
    case ncclFloat16:
      return visit(Floats<Half>(recipe));
    case ncclFloat64:
      return visit(Floats<Double>(recipe));
    case ncclBfloat16:
      return visit(Floats<Bfloat16>(recipe));
    case ncclFloat8e4m3:
      return visit(Floats<Float8e4m3>(recipe));
    case ncclFloat8e5m2:
      return visit(Floats<Float8e5m2>(recipe));
    default:
      return visit(Floats<Single>(recipe));
  }
}

/// of(position) for every position if a buffer of `count` elements will use each more than once, else nothing.
template <typename Of>
auto table_if_long(size_t count, Of of) {
  std::vector<decltype(of(size_t{}))> table;
  if (count < 2 * kPeriod) return table;
  table.reserve(kPeriod);
  for (size_t position = 0; position < kPeriod; ++position) table.push_back(of(position));
  return table;
}

template <typename T>
T load(const void* base, size_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + at * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void generate(const Recipe& recipe, int rank, size_t first, size_t count, void* out) {
  with_family(recipe, [&](auto family) {
    using Bits = typename decltype(family)::Bits;
    const auto of = [&](size_t position) { return family.contribution(element_bits(recipe, position), rank); };
    const std::vector<Bits> table = table_if_long(count, of);
    for_each_piece(first, count, [&](size_t offset, size_t position, size_t length) {
      char* piece = static_cast<char*>(out) + offset * sizeof(Bits);
      if (!table.empty()) {
        std::memcpy(piece, &table[position], length * sizeof(Bits));
        return;
      }
      for (size_t at = 0; at < length; ++at) {
        const Bits bits = of(position + at);
        std::memcpy(piece + at * sizeof(Bits), &bits, sizeof(Bits));
      }
    });
  });
}

size_t count_changed(const Recipe& recipe, int rank, size_t first, size_t count, const void* actual) {
  return with_family(recipe, [&](auto family) {
    using Bits = typename decltype(family)::Bits;
    const auto of = [&](size_t position) { return family.contribution(element_bits(recipe, position), rank); };
    const std::vector<Bits> table = table_if_long(count, of);
    size_t changed = 0;
    for_each_piece(first, count, [&](size_t offset, size_t position, size_t length) {
      const char* piece = static_cast<const char*>(actual) + offset * sizeof(Bits);
      if (!table.empty() && std::memcmp(piece, &table[position], length * sizeof(Bits)) == 0) return;
      for (size_t at = 0; at < length; ++at) {
        const Bits expected = of(position + at);
        changed += std::memcmp(piece + at * sizeof(Bits), &expected, sizeof(Bits)) != 0 ? 1U : 0U;
      }
    });
    return changed;
  });
}

size_t count_wrong(const Recipe& recipe, size_t first, size_t count, const void* actual) {
  return with_family(recipe, [&](auto family) {
    using Family = decltype(family);
    using Bits = typename Family::Bits;
    const auto of = [&](size_t position) { return family.result(element_bits(recipe, position)); };
    const std::vector<typename Family::Result> table = table_if_long(count, of);
    size_t wrong = 0;
    for_each_piece(first, count, [&](size_t offset, size_t position, size_t length) {
      for (size_t at = 0; at < length; ++at) {
        const auto expected = table.empty() ? of(position + at) : table[position + at];
        wrong += family.matches(load<Bits>(actual, offset + at), expected) ? 0U : 1U;
      }
    });
    return wrong;
  });
}

double Deviation::nmse() const {
  if (energy > 0 || std::isnan(energy)) return error / energy;
  return error == 0 ? 0 : HUGE_VAL;
}

Deviation deviation(const Recipe& recipe, size_t first, size_t count, const void* actual) {
  return with_family(recipe, [&](auto family) {
    Deviation sums;
    if constexpr (requires { family.exact(uint64_t{}); }) {
      using Format = typename decltype(family)::Type;
      const auto of = [&](size_t position) { return family.exact(element_bits(recipe, position)); };
      const std::vector<double> table = table_if_long(count, of);
      for_each_piece(first, count, [&](size_t offset, size_t position, size_t length) {
        for (size_t at = 0; at < length; ++at) {
          const double expected = table.empty() ? of(position + at) : table[position + at];
          const double error = Format::decode(load<typename Format::Bits>(actual, offset + at)) - expected;
          sums.error += error * error;
          sums.energy += expected * expected;
        }
      });
    }
    return sums;
  });
}

void encode_premul_scalar(ncclDataType_t type, int rank, void* out) {
  with_family({.type = type, .op = Op::mulsum}, [&](auto family) {
    const auto scalar = decltype(family)::scalar(premul_scalar(rank));
    std::memcpy(out, &scalar, sizeof scalar);
  });
}

}  // namespace sweep
